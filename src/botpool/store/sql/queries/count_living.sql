-- How many bots of each pool should be heard.
SELECT s.platform, count(*) AS living
FROM bot_pool_slots s
WHERE s.status IN ('deploying', 'busy')
GROUP BY s.platform
