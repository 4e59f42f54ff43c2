-- Count the deploying and running bots of each pool.
SELECT s.pool_name, count(*) AS live
FROM bot_pool_slots s
WHERE s.assigned_bot_id IS NOT NULL AND s.status IN ('deploying', 'busy')
GROUP BY s.pool_name
