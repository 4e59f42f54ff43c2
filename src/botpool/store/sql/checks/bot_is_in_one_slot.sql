-- 1. Bots in more than one slot.
SELECT s.assigned_bot_id AS bot, count(*) AS slots
FROM bot_pool_slots s
WHERE s.assigned_bot_id IS NOT NULL
GROUP BY s.assigned_bot_id
HAVING count(*) > 1
