-- The record of a pool for a prediction: the share of starts that were as quick as a bot's must be, and
-- the share of recorded minutes, around the same time of day, with a free slot beside the bookings.
SELECT
    botpool_now() AS now,
    (
        SELECT avg(CASE WHEN s.start_s <= extract(epoch FROM %(join_at)s::timestamptz - %(starts_at)s::timestamptz)
                        THEN 1 ELSE 0 END)::float8
        FROM (
            SELECT extract(epoch FROM a.running_at - a.assigned_at) AS start_s
            FROM assignments a
            WHERE a.pool_name = p.pool_name AND (a.running_at IS NOT NULL OR a.failure IS NOT NULL)
            ORDER BY a.assigned_at DESC
            LIMIT 500
        ) AS s
    ) AS starts_in_time,
    (
        SELECT avg(CASE WHEN m.in_use + o.bookings < p.max_size THEN 1 ELSE 0 END)::float8
        FROM (
            SELECT
                coalesce((s.slots ->> 'busy')::integer, 0) + coalesce((s.slots ->> 'deploying')::integer, 0)
                    + coalesce((s.slots ->> 'releasing')::integer, 0) + s.queue_depth AS in_use
            FROM pool_samples s
            WHERE s.pool_name = p.pool_name
              AND abs(mod(
                  extract(epoch FROM %(join_at)s::timestamptz - s.at)::numeric + 43200, 86400) - 43200) <= 1800
        ) AS m
        CROSS JOIN (
            SELECT botpool_max_overlap(
                p.pool_name, NULL, %(starts_at)s, %(join_at)s::timestamptz + interval '1 minute', NULL)
                AS bookings
        ) AS o
    ) AS free_share
FROM pools p
WHERE p.pool_name = %(pool_name)s
