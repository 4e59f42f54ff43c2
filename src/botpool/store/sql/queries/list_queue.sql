-- Who waits, in the order of service within each pool; of every pool that is asked for its head, so
-- that a long queue is not read for a short one behind it.
SELECT
    head.bot_id, p.pool_name, head.priority, head.queued_at, head.timeout_at, head.position
FROM pools p
CROSS JOIN LATERAL (
    SELECT
        q.bot_id, q.priority, q.queued_at, q.timeout_at,
        row_number() OVER (ORDER BY q.priority, q.bot_id) AS position
    FROM bot_pool_queue q
    WHERE q.pool_name = p.pool_name
    ORDER BY q.priority, q.bot_id
    LIMIT %(limit)s
) AS head
WHERE %(pool_name)s::text IS NULL OR p.pool_name = %(pool_name)s
ORDER BY p.pool_name, head.position
LIMIT %(limit)s
