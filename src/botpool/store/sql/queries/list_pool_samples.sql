-- A pool's last minutes, oldest first: the recorded sample, the arrivals and the starts of each.
-- Starts count if their assignment is at most an hour older than the first minute.
WITH bounds AS MATERIALIZED (
    SELECT
        date_bin('1 minute', botpool_now(), 'epoch') - make_interval(mins => %(minutes)s - 1)
            AS first_at,
        date_bin('1 minute', botpool_now(), 'epoch') AS last_at
), arrived AS MATERIALIZED (
    SELECT date_bin('1 minute', b.created_at, 'epoch') AS at, count(*) AS bots
    FROM bots b
    -- Ids of concurrent arrivals may be out of order, so start a minute earlier.
    WHERE b.id >= (SELECT botpool_first_bot_since(first_at - interval '1 minute') FROM bounds)
      AND b.pool_name = %(pool_name)s
      AND b.created_at >= (SELECT first_at FROM bounds)
    GROUP BY 1
), started AS MATERIALIZED (
    SELECT
        date_bin('1 minute', a.running_at, 'epoch') AS at,
        (percentile_cont(0.5) WITHIN GROUP (
            ORDER BY extract(epoch FROM a.running_at - a.assigned_at) * 1000))::bigint AS p50_ms,
        (percentile_cont(0.95) WITHIN GROUP (
            ORDER BY extract(epoch FROM a.running_at - a.assigned_at) * 1000))::bigint AS p95_ms
    FROM assignments a
    WHERE a.pool_name = %(pool_name)s
      AND a.assigned_at >= (SELECT first_at FROM bounds) - interval '1 hour'
      AND a.running_at >= (SELECT first_at FROM bounds)
    GROUP BY 1
)
SELECT
    minute.at, coalesce(arrived.bots, 0) AS arrivals, sample.queue_depth, sample.slots,
    started.p50_ms AS time_to_running_p50_ms, started.p95_ms AS time_to_running_p95_ms
FROM pools p
CROSS JOIN bounds
CROSS JOIN generate_series(bounds.first_at, bounds.last_at, interval '1 minute') AS minute (at)
LEFT JOIN pool_samples sample ON sample.pool_name = p.pool_name AND sample.at = minute.at
LEFT JOIN arrived ON arrived.at = minute.at
LEFT JOIN started ON started.at = minute.at
WHERE p.pool_name = %(pool_name)s
ORDER BY minute.at
