-- Find the slot that a bot is assigned to.
SELECT s.id AS slot_id, s.status, s.assignment_id, s.version
FROM bot_pool_slots s
WHERE s.assigned_bot_id = %(bot_id)s
