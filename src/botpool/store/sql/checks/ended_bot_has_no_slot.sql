-- Slots that deploy or run a bot that has ended.
-- Meaning: no slot deploys or runs a bot that has ended
-- Remedy: Check that a replica runs: its next recovery pass releases the slot.
-- Kind: momentary
SELECT s.slot_name AS slot, s.status, b.id AS bot, b.status AS bot_status
FROM bot_pool_slots s
JOIN bots b ON b.id = s.assigned_bot_id
WHERE s.status IN ('deploying', 'busy') AND b.status IN ('DONE', 'FAILED', 'CANCELLED')
