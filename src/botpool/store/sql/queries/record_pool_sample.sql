-- Record the state of every pool in this minute and delete old samples. Several samples in a minute keep
-- the longest queue and the latest slots.
WITH deleted AS (
    DELETE FROM pool_samples WHERE at < botpool_now() - make_interval(hours => %(kept_h)s)
)
INSERT INTO pool_samples AS sample (pool_name, at, queue_depth, slots)
SELECT
    p.pool_name,
    date_bin('1 minute', botpool_now(), 'epoch'),
    (SELECT count(*) FROM bot_pool_queue q WHERE q.pool_name = p.pool_name),
    (
        SELECT coalesce(json_object_agg(g.status, g.n), '{}')
        FROM (
            SELECT s.status, count(*) AS n
            FROM slot_identities i
            JOIN bot_pool_slots s ON s.id = i.slot_id
            WHERE i.pool_name = p.pool_name
            GROUP BY s.status
        ) AS g
    )
FROM pools p
ORDER BY p.pool_name
ON CONFLICT (pool_name, at) DO UPDATE
SET queue_depth = greatest(sample.queue_depth, EXCLUDED.queue_depth), slots = EXCLUDED.slots
