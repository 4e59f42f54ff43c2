-- Count the silent bots of each pool, and all bots with which they are compared. Once the first bot is
-- silent for a window, all bots that have missed several heartbeats count, and those that failed in the
-- window because of their silence: so bots that fall silent one after another, or that the passes of
-- several replicas divide between them, count together. Slots whose container has exited do not count.
WITH pool AS MATERIALIZED (
    SELECT
        p.pool_name, p.silence_alarm_at,
        count(s.id) AS live,
        count(*) FILTER (WHERE quiet.seconds > %(late_s)s) AS late,
        count(*) FILTER (WHERE quiet.seconds > %(window_s)s) AS stale
    FROM pools p
    LEFT JOIN bot_pool_slots s
        ON s.pool_name = p.pool_name
       AND s.status IN ('deploying', 'busy')
       -- Uses the index of slots with a bot.
       AND s.assigned_bot_id IS NOT NULL
       AND NOT s.id = ANY (%(exited)s::bigint[])
    LEFT JOIN assignments a ON a.id = s.assignment_id
    LEFT JOIN bot_heartbeats h ON h.bot_id = s.assigned_bot_id AND h.assignment_id = s.assignment_id
    LEFT JOIN LATERAL (
        -- A deploying bot that has not called yet is not silent.
        SELECT extract(epoch FROM botpool_now() - greatest(
            h.last_at, a.running_at, %(gap_ended_at)s::timestamptz))::float8 AS seconds
        WHERE h.last_at IS NOT NULL OR a.running_at IS NOT NULL
    ) AS quiet ON true
    WHERE p.heartbeats = 'required'
    GROUP BY p.pool_name
)
SELECT
    pool.pool_name, pool.silence_alarm_at,
    CASE WHEN pool.stale + failed.bots > 0 OR pool.silence_alarm_at IS NOT NULL
         THEN pool.late + failed.bots ELSE 0 END AS silent,
    pool.live + failed.bots AS live
FROM pool
CROSS JOIN LATERAL (
    SELECT count(*) AS bots
    FROM bots b
    WHERE b.status = 'FAILED'
      AND b.pool_name = pool.pool_name
      AND b.failure_code = 'heartbeat_lost'
      AND b.ended_at > botpool_now() - make_interval(secs => %(window_s)s)
      AND (pool.late > 0 OR pool.silence_alarm_at IS NOT NULL)
) AS failed
ORDER BY pool.pool_name
