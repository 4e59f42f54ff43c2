-- Count the outcomes of a pool's last scheduled bots by predicted probability, in tenths.
SELECT
    o.bucket::integer AS bucket, o.reserved, count(*)::integer AS bots,
    count(*) FILTER (WHERE o.on_time)::integer AS on_time,
    avg(o.probability)::float8 AS predicted,
    avg((o.probability - CASE WHEN o.on_time THEN 1 ELSE 0 END) ^ 2)::float8 AS brier
FROM (
    SELECT
        k.reserved, k.on_time_probability AS probability,
        least(9, floor(k.on_time_probability * 10)) AS bucket,
        coalesce(k.joined_at <= b.join_at + interval '5 seconds', false) AS on_time
    FROM bookings k
    JOIN bots b ON b.id = k.bot_id
    WHERE k.pool_name = %(pool_name)s
      AND k.ended_at IS NOT NULL
      AND k.on_time_probability IS NOT NULL
      -- A bot that its user cancelled has no outcome.
      AND (k.joined_at IS NOT NULL OR b.status = 'FAILED')
    ORDER BY k.ended_at DESC
    LIMIT 1000
) AS o
GROUP BY o.bucket, o.reserved
ORDER BY o.bucket, o.reserved
