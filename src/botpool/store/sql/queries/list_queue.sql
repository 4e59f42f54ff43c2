-- Who waits, in the order of service within each pool.
SELECT
    q.bot_id, q.platform, q.priority, q.queued_at, q.timeout_at,
    row_number() OVER (PARTITION BY q.platform ORDER BY q.priority, q.bot_id) AS position
FROM bot_pool_queue q
WHERE %(platform)s::text IS NULL OR q.platform = %(platform)s
ORDER BY q.platform, q.priority, q.bot_id
LIMIT %(limit)s
