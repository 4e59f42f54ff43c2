-- 2. Slots whose status and assigned bot disagree.
SELECT s.slot_name AS slot, s.status, s.assigned_bot_id AS bot
FROM bot_pool_slots s
WHERE (s.status IN ('deploying', 'busy', 'releasing')) <> (s.assigned_bot_id IS NOT NULL)
