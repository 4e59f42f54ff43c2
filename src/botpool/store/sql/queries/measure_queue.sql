-- Count the queued bots of a pool by priority.
SELECT q.priority, count(*) AS bots
FROM bot_pool_queue q
WHERE q.pool_name = %(pool_name)s
GROUP BY q.priority
