-- Read the pools that keep slots ready, or still have standbys, with the figures from which a replica decides how
-- many standbys to start and to stop. A standby is outdated before it reaches the maximum age, at a time that its
-- run id spreads, and after a change of the pool's settings. A scheduled bot asks for a hot slot as long before its
-- start as its start lies before its join.
SELECT
    p.pool_name, p.backend, p.warm, p.max_size,
    p.drained_at IS NOT NULL AS drained,
    (
        SELECT q.id FROM bot_pool_queue q WHERE q.pool_name = p.pool_name
        ORDER BY q.priority, q.bot_id LIMIT 1) IS NOT NULL AS bots_wait,
    coalesce(n.size, 0) AS size, coalesce(n.fresh, 0) AS fresh, coalesce(n.fresh_ready, 0) AS fresh_ready,
    coalesce(n.outdated, 0) AS outdated, coalesce(n.stopping, 0) AS stopping, coalesce(n.forced, 0) AS forced,
    coalesce(n.failing, 0) AS failing, coalesce(n.free, 0) AS free, booked.ready_from, booked.starts_at,
    botpool_now() AS now
FROM pools p
CROSS JOIN LATERAL (
    SELECT
        count(*) AS size,
        count(*) FILTER (WHERE c.is_standby AND NOT c.is_outdated) AS fresh,
        count(*) FILTER (WHERE c.is_standby AND NOT c.is_outdated AND c.standby = 'ready') AS fresh_ready,
        count(*) FILTER (WHERE c.is_standby AND c.is_outdated) AS outdated,
        count(*) FILTER (WHERE c.standby = 'stopping') AS stopping,
        count(*) FILTER (WHERE c.is_forced) AS forced,
        count(*) FILTER (WHERE c.is_failing) AS failing,
        count(*) FILTER (WHERE c.is_free AND NOT c.is_failing) AS free
    FROM (
        SELECT
            s.standby,
            s.status = 'idle' AND coalesce(s.standby IN ('starting', 'ready'), false) AND NOT s.cordoned
                AS is_standby,
            s.status = 'idle' AND coalesce(s.standby IN ('starting', 'ready'), false)
                AND (s.cordoned OR p.drained_at IS NOT NULL OR s.backend <> p.backend) AS is_forced,
            coalesce(
                s.start_issued_at < p.updated_at
                OR s.run_started_at < botpool_now() - make_interval(secs =>
                    (p.warm ->> 'max_age_s')::float8 * (0.9 + (s.run_id %% 100) / 1000.0)), false) AS is_outdated,
            s.status = 'error'
                OR coalesce(
                    s.claim_rank >= 2 AND s.standby IS NULL AND s.error_at >= botpool_now()
                        - make_interval(secs => %(backoff_s)s * power(2, least(s.resets, 6))), false)
                AS is_failing,
            coalesce(s.claim_rank >= 2 AND s.standby IS NULL, false) AS is_free
        FROM slot_identities i
        JOIN bot_pool_slots s ON s.id = i.slot_id
        WHERE i.pool_name = p.pool_name
    ) AS c
) AS n
CROSS JOIN LATERAL (
    SELECT
        coalesce(array_agg(k.starts_at - (b.join_at - k.starts_at) ORDER BY k.starts_at), '{}') AS ready_from,
        coalesce(array_agg(k.starts_at ORDER BY k.starts_at), '{}') AS starts_at
    FROM bookings k
    JOIN bots b ON b.id = k.bot_id
    WHERE (p.warm ->> 'ahead_of_schedule')::boolean
      AND k.pool_name = p.pool_name
      AND k.ended_at IS NULL
      AND k.due_at IS NULL
      AND k.starts_at < botpool_now() + interval '1 hour'
) AS booked
WHERE (p.warm ->> 'hot')::integer > 0
   OR p.warm -> 'windows' <> '[]'
   OR (p.warm ->> 'ahead_of_schedule')::boolean
   OR (
       SELECT s.standby FROM bot_pool_slots s WHERE s.pool_name = p.pool_name AND s.standby IS NOT NULL
       ORDER BY s.standby LIMIT 1) IS NOT NULL
ORDER BY p.pool_name
