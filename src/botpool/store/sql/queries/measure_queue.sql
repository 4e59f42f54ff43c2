-- Count the queued bots of a pool by tenant and priority.
SELECT t.name AS tenant, q.priority, count(*) AS bots
FROM bot_pool_queue q
JOIN tenants t ON t.id = q.tenant_id
WHERE q.pool_name = %(pool_name)s
GROUP BY t.name, q.priority
