-- Mark the scheduled bots of a pool that will probably be late, once each: the pool is drained, more
-- bookings overlap than the pool has slots, or the remaining time is shorter than a usual start.
WITH pool AS MATERIALIZED (
    SELECT
        p.pool_name, p.drained_at, p.max_size, t.hold_s, t.median_start_s,
        botpool_max_overlap(p.pool_name, NULL, botpool_now(), 'infinity', NULL) > p.max_size AS is_overbooked
    FROM pools p
    CROSS JOIN LATERAL botpool_booking_times(p.pool_name) AS t
    WHERE p.pool_name = %(pool_name)s
), candidate AS MATERIALIZED (
    SELECT
        b.id, b.join_at, b.correlation_id,
        CASE
            WHEN b.started_at IS NULL
                AND botpool_now() + make_interval(secs => pool.median_start_s) > b.join_at + interval '5 seconds'
            THEN %(late_reason)s::text
            WHEN b.status <> 'DEPLOYING' AND pool.drained_at IS NOT NULL
                AND k.starts_at < botpool_now() + make_interval(secs => pool.hold_s)
            THEN %(drained_reason)s
            WHEN b.status <> 'DEPLOYING' AND pool.is_overbooked AND k.reserved AND (
                SELECT count(*) FROM bookings o
                WHERE o.pool_name = pool.pool_name
                  AND o.ended_at IS NULL
                  AND o.reserved
                  AND o.starts_at <= k.starts_at
                  AND botpool_booking_end(o.ends_at) > k.starts_at
                  AND o.bot_id < k.bot_id) >= pool.max_size
            THEN %(overbooked_reason)s
        END AS reason
    FROM pool
    JOIN bookings k ON k.pool_name = pool.pool_name
    JOIN bots b ON b.id = k.bot_id
    WHERE k.ended_at IS NULL
      AND k.at_risk IS NULL
      AND b.status IN ('SCHEDULED', 'QUEUED', 'DEPLOYING')
), marked AS (
    UPDATE bookings k
    SET at_risk = c.reason
    FROM candidate c
    WHERE k.bot_id = c.id AND c.reason IS NOT NULL AND k.at_risk IS NULL
    RETURNING k.bot_id
), written AS (
    INSERT INTO history (kind, bot_id, reason, correlation_id, data)
    SELECT 'bot.at_risk', c.id, c.reason, c.correlation_id, json_build_object('joinAt', c.join_at)
    FROM candidate c
    JOIN marked m ON m.bot_id = c.id
)
SELECT c.id AS bot_id, %(pool_name)s::text AS pool_name, c.correlation_id, c.reason
FROM candidate c
JOIN marked m ON m.bot_id = c.id
