-- Read the state of a slot that an operator's command depends on.
SELECT
    s.id AS slot_id, s.slot_name, s.pool_name, s.status, s.container_id, s.assignment_id, s.version
FROM bot_pool_slots s
WHERE s.id = %(slot_id)s
