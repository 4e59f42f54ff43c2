-- How many wait in a pool, by priority.
SELECT q.priority, count(*) AS bots
FROM bot_pool_queue q
WHERE q.platform = %(platform)s
GROUP BY q.priority
