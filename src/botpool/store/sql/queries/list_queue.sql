-- Queued bots in the order of service within each pool. Each pool contributes at most `limit` rows,
-- so that one long queue is not read in full.
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
