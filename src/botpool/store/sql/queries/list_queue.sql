-- Who waits, in the order of service within each pool; of every pool that is asked for its head, so
-- that a long queue is not read for a short one behind it.
SELECT
    head.bot_id, p.platform, head.priority, head.queued_at, head.timeout_at, head.position
FROM pools p
CROSS JOIN LATERAL (
    SELECT
        q.bot_id, q.priority, q.queued_at, q.timeout_at,
        row_number() OVER (ORDER BY q.priority, q.bot_id) AS position
    FROM bot_pool_queue q
    WHERE q.platform = p.platform
    ORDER BY q.priority, q.bot_id
    LIMIT %(limit)s
) AS head
WHERE %(platform)s::text IS NULL OR p.platform = %(platform)s
ORDER BY p.platform, head.position
LIMIT %(limit)s
