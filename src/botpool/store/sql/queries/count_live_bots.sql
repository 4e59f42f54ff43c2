-- How many bots of each pool should be heard.
SELECT s.pool_name, count(*) AS living
FROM bot_pool_slots s
WHERE s.assigned_bot_id IS NOT NULL AND s.status IN ('deploying', 'busy')
GROUP BY s.pool_name
