-- Pools in which bots of any of these tenants wait.
SELECT p.pool_name
FROM pools p
WHERE EXISTS (
    SELECT FROM bot_pool_queue q
    WHERE q.pool_name = p.pool_name AND q.tenant_id = ANY (%(tenant_ids)s::bigint[]))
ORDER BY p.pool_name
