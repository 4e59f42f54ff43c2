-- Slots that deploy or run a bot that has ended.
SELECT s.slot_name AS slot, s.status, b.id AS bot, b.status AS bot_status
FROM bot_pool_slots s
JOIN bots b ON b.id = s.assigned_bot_id
WHERE s.status IN ('deploying', 'busy') AND b.status IN ('DONE', 'FAILED', 'CANCELLED')
