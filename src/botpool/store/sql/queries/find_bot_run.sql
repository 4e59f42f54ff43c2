-- The last run of a bot, whose output its logs are.
SELECT coalesce(a.run_id, a.id) AS assignment_id, a.container_id, p.backend
FROM bots b
JOIN pools p ON p.pool_name = b.pool_name
LEFT JOIN assignments a ON a.id = b.assignment_id
WHERE b.id = %(bot_id)s
