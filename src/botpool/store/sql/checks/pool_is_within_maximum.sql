-- 4. Pools above their maximum that have a slot without a bot; slots with a bot may finish it.
-- Meaning: 4. a pool has no idle slots above its maximum
-- Remedy: Check that a replica runs: it deletes idle slots above the maximum.
-- Kind: always
SELECT p.pool_name AS pool, p.max_size AS maximum, count(*) AS slots
FROM pools p
JOIN bot_pool_slots s ON s.pool_name = p.pool_name
WHERE s.status <> 'deleting'
GROUP BY p.pool_name, p.max_size
HAVING count(*) > p.max_size AND count(*) FILTER (WHERE s.assigned_bot_id IS NULL) > 0
