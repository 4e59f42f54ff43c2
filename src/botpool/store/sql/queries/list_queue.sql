-- A page of queued bots by priority and arrival within each pool, after a bot, each with its position in
-- its tenant's queue. Each pool contributes at most `limit` rows, so that one long queue is not read in
-- full. Only the count of the bots before the page, which gives the first positions, grows with the queue.
SELECT
    head.bot_id, head.arrival, p.pool_name, t.name AS tenant, head.priority, head.queued_at, head.timeout_at,
    coalesce((before.bots ->> head.tenant_id::text)::bigint, 0) + head.nth AS position
FROM pools p
CROSS JOIN LATERAL (
    SELECT
        CASE WHEN p.pool_name = %(after_pool)s THEN %(after_priority)s::bigint
             ELSE -2147483648 END AS priority,
        CASE WHEN p.pool_name = %(after_pool)s THEN %(after_arrival)s::bigint ELSE 0 END AS arrival
) AS start
CROSS JOIN LATERAL (
    SELECT jsonb_object_agg(c.tenant_id, c.bots) AS bots
    FROM (
        SELECT e.tenant_id, count(*) AS bots
        FROM bot_pool_queue e
        WHERE e.pool_name = p.pool_name AND (e.priority, e.arrival) <= (start.priority, start.arrival)
          AND (%(tenant_id)s::bigint IS NULL OR e.tenant_id = %(tenant_id)s)
        GROUP BY e.tenant_id
    ) AS c
) AS before
CROSS JOIN LATERAL (
    SELECT
        f.bot_id, f.arrival, f.tenant_id, f.priority, f.queued_at, f.timeout_at,
        row_number() OVER (PARTITION BY f.tenant_id ORDER BY f.priority, f.arrival) AS nth
    FROM (
        SELECT q.bot_id, q.arrival, q.tenant_id, q.priority, q.queued_at, q.timeout_at
        FROM bot_pool_queue q
        WHERE q.pool_name = p.pool_name AND (q.priority, q.arrival) > (start.priority, start.arrival)
          AND (%(tenant_id)s::bigint IS NULL OR q.tenant_id = %(tenant_id)s)
        ORDER BY q.priority, q.arrival
        LIMIT %(limit)s
    ) AS f
) AS head
JOIN tenants t ON t.id = head.tenant_id
WHERE p.pool_name >= %(after_pool)s::text
  AND (%(pool_name)s::text IS NULL OR p.pool_name = %(pool_name)s)
ORDER BY p.pool_name, head.priority, head.arrival
LIMIT %(limit)s
