-- List all slots with the statuses of their bots.
SELECT s.id, s.container_id, s.slot_name, s.status, s.assigned_bot_id AS bot_id, b.status AS bot_status
FROM meeboter_slots s
LEFT JOIN meeboter_bots b ON b.id = s.assigned_bot_id
ORDER BY s.slot_name, s.id
