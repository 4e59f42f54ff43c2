-- 4. Pools above their maximum by slots without a bot; those with one may finish it.
SELECT p.platform AS pool, p.max_size AS maximum, count(*) AS slots
FROM pools p
JOIN bot_pool_slots s ON s.platform = p.platform
WHERE s.status <> 'deleting'
GROUP BY p.platform, p.max_size
HAVING count(*) > p.max_size AND count(*) FILTER (WHERE s.assigned_bot_id IS NULL) > 0
