-- 2. Slots whose status and assigned bot disagree.
-- Meaning: 2. a slot has a bot exactly if it is deploying, busy or releasing
-- Remedy: Botpool never writes this state. Back up the database, report it, then delete the slot:
--   'botpool slot delete --force'.
-- Kind: always
SELECT s.slot_name AS slot, s.status, s.assigned_bot_id AS bot
FROM bot_pool_slots s
WHERE (s.status IN ('deploying', 'busy', 'releasing')) <> (s.assigned_bot_id IS NOT NULL)
