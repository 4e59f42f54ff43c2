-- Pools with their figures. Ratios and times cover each pool's last thousand assignments that ran.
SELECT
    p.pool_name, p.backend, p.image,
    CASE WHEN p.configured_image <> p.image THEN p.configured_image END AS configured_image, p.max_size, p.heartbeats, p.drained_at,
    coalesce(slots.size, 0) AS size,
    coalesce(slots.by_status, '{}') AS slots_by_status,
    coalesce(slots.unconfirmed, 0) AS unconfirmed_stops,
    waiting.depth AS queue_depth,
    waiting.oldest_wait_ms,
    recent.warm_ratio,
    recent.p50_ms AS time_to_running_p50_ms,
    recent.p95_ms AS time_to_running_p95_ms,
    e.egress, e.per_minute * botpool_pace(e) AS per_minute, e.per_minute AS configured_per_minute,
    e.breaker, e.probe_at, e.blocks AS blocks_in_a_row
FROM pools p
LEFT JOIN egresses e ON e.egress = p.egress
LEFT JOIN LATERAL (
    SELECT
        sum(g.n)::bigint AS size, json_object_agg(g.status, g.n) AS by_status,
        sum(g.unconfirmed)::bigint AS unconfirmed
    FROM (
        SELECT s.status, count(*) AS n, count(s.unconfirmed_reason) AS unconfirmed
        FROM slot_identities i
        JOIN bot_pool_slots s ON s.id = i.slot_id
        WHERE i.pool_name = p.pool_name
        GROUP BY s.status
    ) AS g
) AS slots ON true
LEFT JOIN LATERAL (
    SELECT
        count(*) AS depth,
        (extract(epoch FROM botpool_now() - min(q.queued_at)) * 1000)::bigint AS oldest_wait_ms
    FROM bot_pool_queue q
    WHERE q.pool_name = p.pool_name
) AS waiting ON true
LEFT JOIN LATERAL (
    SELECT
        avg(CASE WHEN a.warm THEN 1 ELSE 0 END)::float8 AS warm_ratio,
        (percentile_cont(0.5) WITHIN GROUP (ORDER BY a.took_ms))::bigint AS p50_ms,
        (percentile_cont(0.95) WITHIN GROUP (ORDER BY a.took_ms))::bigint AS p95_ms
    FROM (
        SELECT
            l.warm, (extract(epoch FROM l.running_at - l.assigned_at) * 1000)::float8 AS took_ms
        FROM assignments l
        WHERE l.pool_name = p.pool_name AND l.running_at IS NOT NULL
        ORDER BY l.assigned_at DESC
        LIMIT 1000
    ) AS a
) AS recent ON true
WHERE %(pool_name)s::text IS NULL OR p.pool_name = %(pool_name)s
ORDER BY p.pool_name
