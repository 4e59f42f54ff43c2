-- Take an idle slot to error, so that the reconciler resets it before the next bot. Fenced.
WITH slot AS (
    UPDATE bot_pool_slots
    SET status = 'error',
        error_message = %(reason)s,
        error_at = botpool_now(),
        phase_at = botpool_now(),
        next_step_at = botpool_now(),
        step_attempts = 0,
        version = version + 1
    WHERE id = %(slot_id)s AND version = %(version)s AND status = 'idle'
    RETURNING id, slot_name, container_id
), written AS (
    INSERT INTO history (kind, slot_id, slot_name, from_state, to_state, reason)
    SELECT 'slot.status', slot.id, slot.slot_name, 'idle', 'error', %(reason)s
    FROM slot
)
SELECT slot.id AS slot_id, slot.slot_name, slot.container_id FROM slot
