-- Measure the times of a pool's last assignments: starts, durations and releases. Keeps a measurement
-- of the last minute.
INSERT INTO pool_times AS t (
    pool_name, measured_at, warm_start_s, cold_start_s, median_start_s, duration_s, release_s)
SELECT
    p.pool_name, botpool_now(),
    percentile_disc(0.99) WITHIN GROUP (ORDER BY m.start_s) FILTER (WHERE m.warm),
    percentile_disc(0.99) WITHIN GROUP (ORDER BY m.start_s) FILTER (WHERE NOT m.warm),
    percentile_disc(0.5) WITHIN GROUP (ORDER BY m.start_s),
    percentile_disc(0.9) WITHIN GROUP (ORDER BY m.duration_s),
    percentile_disc(0.9) WITHIN GROUP (ORDER BY m.release_s)
FROM pools p
LEFT JOIN LATERAL (
    SELECT
        a.warm, extract(epoch FROM a.running_at - a.assigned_at)::float8 AS start_s,
        CASE WHEN a.running_at IS NOT NULL
             THEN extract(epoch FROM a.ended_at - greatest(a.assigned_at, b.join_at))::float8 END AS duration_s,
        extract(epoch FROM a.ended_at - coalesce(b.finishing_at, b.ended_at))::float8 AS release_s
    FROM (
        SELECT s.bot_id, s.warm, s.running_at, s.assigned_at, s.ended_at
        FROM assignments s
        WHERE s.pool_name = p.pool_name
        ORDER BY s.assigned_at DESC
        LIMIT 1000
    ) AS a
    JOIN bots b ON b.id = a.bot_id
) AS m ON true
WHERE p.pool_name = %(pool_name)s
  AND NOT EXISTS (
      SELECT FROM pool_times f
      WHERE f.pool_name = p.pool_name
        AND f.measured_at BETWEEN botpool_now() - interval '1 minute' AND botpool_now())
GROUP BY p.pool_name
ON CONFLICT (pool_name) DO UPDATE
SET measured_at = EXCLUDED.measured_at, warm_start_s = EXCLUDED.warm_start_s,
    cold_start_s = EXCLUDED.cold_start_s, median_start_s = EXCLUDED.median_start_s,
    duration_s = EXCLUDED.duration_s, release_s = EXCLUDED.release_s
