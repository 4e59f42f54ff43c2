-- Count the queued bots of each tenant in a pool, if several tenants wait; no rows with one tenant.
SELECT t.name AS tenant, t.weight, count(*) AS bots
FROM bot_pool_queue q
JOIN tenants t ON t.id = q.tenant_id
WHERE q.pool_name = %(pool_name)s
  AND (
      SELECT f.tenant_id FROM bot_pool_queue f WHERE f.pool_name = %(pool_name)s
      ORDER BY f.tenant_id LIMIT 1)
      <> (
      SELECT l.tenant_id FROM bot_pool_queue l WHERE l.pool_name = %(pool_name)s
      ORDER BY l.tenant_id DESC LIMIT 1)
GROUP BY t.name, t.weight
