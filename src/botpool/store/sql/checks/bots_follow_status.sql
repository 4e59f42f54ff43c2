-- 2. Slots that have a bot where their status says none, or none where it says one.
SELECT s.slot_name AS slot, s.status, s.assigned_bot_id AS bot
FROM bot_pool_slots s
WHERE (s.status IN ('deploying', 'busy', 'releasing')) <> (s.assigned_bot_id IS NOT NULL)
