-- The slot that a bot is in: by the one source of truth.
SELECT s.id AS slot_id, s.status, s.assignment_id
FROM bot_pool_slots s
WHERE s.assigned_bot_id = %(bot_id)s
