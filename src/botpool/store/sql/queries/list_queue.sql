-- A page of queued bots in the order of service within each pool, after a position. Each pool contributes
-- at most `limit` rows, so that one long queue is not read in full. Only the count of the bots before the
-- page, which gives its first position, grows with the queue.
SELECT
    head.bot_id, p.pool_name, head.priority, head.queued_at, head.timeout_at, head.position
FROM pools p
CROSS JOIN LATERAL (
    SELECT
        CASE WHEN p.pool_name = %(after_pool)s THEN %(after_priority)s::bigint
             ELSE -2147483648 END AS priority,
        CASE WHEN p.pool_name = %(after_pool)s THEN %(after_bot)s::bigint ELSE 0 END AS bot_id
) AS start
CROSS JOIN LATERAL (
    SELECT count(*) AS bots
    FROM bot_pool_queue e
    WHERE e.pool_name = p.pool_name AND (e.priority, e.bot_id) <= (start.priority, start.bot_id)
      AND (%(tenant_id)s::bigint IS NULL OR e.tenant_id = %(tenant_id)s)
) AS before
CROSS JOIN LATERAL (
    SELECT
        q.bot_id, q.priority, q.queued_at, q.timeout_at,
        before.bots + row_number() OVER (ORDER BY q.priority, q.bot_id) AS position
    FROM bot_pool_queue q
    WHERE q.pool_name = p.pool_name AND (q.priority, q.bot_id) > (start.priority, start.bot_id)
      AND (%(tenant_id)s::bigint IS NULL OR q.tenant_id = %(tenant_id)s)
    ORDER BY q.priority, q.bot_id
    LIMIT %(limit)s
) AS head
WHERE p.pool_name >= %(after_pool)s::text
  AND (%(pool_name)s::text IS NULL OR p.pool_name = %(pool_name)s)
ORDER BY p.pool_name, head.position
LIMIT %(limit)s
