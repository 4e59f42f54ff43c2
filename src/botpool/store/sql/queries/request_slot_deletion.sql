-- Mark a slot that has a bot for deletion after the bot's end; the slot takes no other bot.
WITH slot AS (
    UPDATE bot_pool_slots
    SET delete_requested = true, cordoned = true, version = version + 1
    WHERE id = %(slot_id)s AND status IN ('deploying', 'busy', 'releasing')
    RETURNING id, slot_name, assigned_bot_id, assignment_id
), written AS (
    INSERT INTO history (kind, bot_id, slot_id, assignment_id, slot_name, reason, correlation_id)
    SELECT
        'slot.delete_requested', slot.assigned_bot_id, slot.id, slot.assignment_id, slot.slot_name,
        %(reason)s, %(correlation_id)s
    FROM slot
)
SELECT slot.id AS slot_id FROM slot
