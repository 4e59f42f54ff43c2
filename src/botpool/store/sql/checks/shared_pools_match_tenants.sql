-- Pools whose column `shared` differs from the tenants that exist, or from those whose bots wait.
-- Meaning: the column shared of each pool matches the tenants that exist, their quotas, and the tenants that wait
-- Remedy: Botpool never writes this state: triggers keep the column. Back up the database, report it, check that triggers are
--   enabled ('session_replication_role'), then run: UPDATE pools SET shared = botpool_tenants_share_pools()
-- Kind: always
SELECT found.pool, found.shared, found.needed
FROM (
    SELECT
        p.pool_name AS pool, p.shared,
        botpool_tenants_share_pools()
            OR EXISTS (SELECT FROM bot_pool_queue q WHERE q.pool_name = p.pool_name AND q.tenant_id > 1) AS needed
    FROM pools p
) AS found
WHERE found.shared <> found.needed
ORDER BY found.pool
