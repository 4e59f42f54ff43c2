-- Read the figures of all pools for the metrics, without history.
SELECT
    p.pool_name, p.max_size, p.silence_alarm_at IS NOT NULL AS mass_silence,
    slots.by_status AS slots_by_status,
    slots.assignable,
    slots.unconfirmed AS unconfirmed_stops,
    waiting.depth AS queue_depth,
    waiting.oldest_wait_s,
    recording.stalled
FROM pools p
CROSS JOIN LATERAL (
    SELECT
        coalesce(json_object_agg(g.status, g.n), '{}') AS by_status,
        coalesce(sum(g.assignable), 0)::bigint AS assignable,
        coalesce(sum(g.unconfirmed), 0)::bigint AS unconfirmed
    FROM (
        SELECT
            s.status, count(*) AS n,
            count(s.unconfirmed_reason) AS unconfirmed,
            count(*) FILTER (WHERE s.claim_rank IS NOT NULL) AS assignable
        FROM slot_identities i
        JOIN bot_pool_slots s ON s.id = i.slot_id
        WHERE i.pool_name = p.pool_name
        GROUP BY s.status
    ) AS g
) AS slots
CROSS JOIN LATERAL (
    SELECT
        count(*) AS depth,
        coalesce(extract(epoch FROM botpool_now() - min(q.queued_at)), 0)::float8 AS oldest_wait_s
    FROM bot_pool_queue q
    WHERE q.pool_name = p.pool_name
) AS waiting
CROSS JOIN LATERAL (
    SELECT count(*) AS stalled
    FROM slot_identities i
    JOIN bot_pool_slots s ON s.id = i.slot_id
    JOIN bots b ON b.id = s.assigned_bot_id
    JOIN bot_heartbeats h ON h.bot_id = b.id
    WHERE p.stalled_after_s > 0
      AND i.pool_name = p.pool_name
      AND s.status = 'busy'
      AND botpool_bot_is_stalled(
          b.status, h.last_at, h.last_media_at, b.in_call_at, p.stalled_after_s)
) AS recording
ORDER BY p.pool_name
