-- Read the pools that keep slots ready, remove unused slots or still have standbys, with the figures from which a
-- replica decides about standbys and idle slots. A standby is outdated before it reaches the maximum age, at a time
-- that its run id spreads, and after a change of the pool's settings. A scheduled bot asks for a hot slot as long
-- before its start as its start lies before its join.
SELECT
    p.pool_name, p.backend, p.warm, p.max_size,
    p.drained_at IS NOT NULL AS drained,
    CASE
        WHEN (
            SELECT q.id FROM bot_pool_queue q WHERE q.pool_name = p.pool_name
            ORDER BY q.priority, q.arrival LIMIT 1) IS NULL THEN false
        -- Bots that wait for the pace or for their quota need no slot yet.
        WHEN p.egress IS NOT NULL AND botpool_assignable_bots(p.egress) = 0 THEN false
        ELSE EXISTS (
            SELECT
            FROM tenants t
            WHERE (t.max_live IS NULL OR t.live < t.max_live)
              AND (
                  SELECT q.id FROM bot_pool_queue q WHERE q.pool_name = p.pool_name AND q.tenant_id = t.id
                  ORDER BY q.priority, q.arrival LIMIT 1) IS NOT NULL)
    END AS bots_wait,
    coalesce(n.size, 0) AS size, coalesce(n.fresh, 0) AS fresh, coalesce(n.fresh_ready, 0) AS fresh_ready,
    coalesce(n.outdated, 0) AS outdated, coalesce(n.stopping, 0) AS stopping, coalesce(n.forced, 0) AS forced,
    coalesce(n.failing, 0) AS failing, coalesce(n.free, 0) AS free, coalesce(n.prepared, 0) AS prepared,
    coalesce(n.unpulled, 0) AS unpulled, coalesce(n.preparing, 0) AS preparing,
    coalesce(n.unprepared, 0) AS unprepared, coalesce(n.idle, 0) AS idle, coalesce(n.expired, 0) AS expired,
    p.refilled_until, booked.ready_from, booked.starts_at, botpool_now() AS now
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
        count(*) FILTER (WHERE c.is_free AND NOT c.is_failing) AS free,
        count(*) FILTER (WHERE c.is_prepared AND NOT c.is_failing) AS prepared,
        count(*) FILTER (
            WHERE c.is_prepared AND NOT c.is_failing AND NOT EXISTS (
                SELECT
                FROM known_images k
                WHERE k.backend = p.backend
                  AND k.image_host = c.image_host
                  AND k.image = c.image
                  AND k.last_started_at > botpool_now() - make_interval(secs => %(image_known_s)s))) AS unpulled,
        count(*) FILTER (WHERE c.is_preparing AND NOT c.is_failing) AS preparing,
        count(*) FILTER (
            WHERE c.is_free AND NOT c.is_failing AND NOT c.is_preparing AND NOT c.is_prepared) AS unprepared,
        count(*) FILTER (WHERE c.is_idle) AS idle,
        count(*) FILTER (WHERE c.is_free AND NOT c.is_preparing AND c.is_expired) AS expired
    FROM (
        SELECT
            s.standby, s.image_host, s.image,
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
            coalesce(s.claim_rank >= 2 AND s.standby IS NULL, false) AS is_free,
            s.status = 'idle' AND NOT s.cordoned AND s.standby IS DISTINCT FROM 'stopping' AS is_idle,
            s.status = 'idle' AND NOT s.cordoned AND s.standby IS NULL AND s.next_step_at IS NULL
                AND s.container_id IS NOT NULL AND s.backend = p.backend
                AND split_part(s.image, '@', 1) = split_part(p.image, '@', 1) AS is_prepared,
            s.status = 'idle' AND NOT s.cordoned AND s.standby IS NULL AND s.next_step_at IS NOT NULL
                AS is_preparing,
            coalesce(
                greatest(s.created_at, s.last_used_at, s.last_released_at)
                    < botpool_now() - make_interval(secs => nullif((p.warm ->> 'idle_ttl_s')::float8, 0)),
                false) AS is_expired
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
   OR (p.warm ->> 'idle')::integer > 0
   OR (p.warm ->> 'idle_ttl_s')::float8 > 0
   OR p.warm -> 'windows' <> '[]'
   OR (p.warm ->> 'ahead_of_schedule')::boolean
   OR (
       SELECT s.standby FROM bot_pool_slots s WHERE s.pool_name = p.pool_name AND s.standby IS NOT NULL
       ORDER BY s.standby LIMIT 1) IS NOT NULL
ORDER BY p.pool_name
