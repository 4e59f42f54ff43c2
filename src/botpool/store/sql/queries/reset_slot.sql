-- Make a slot in error idle after its container was stopped or created again. Fenced. The transaction
-- holds the pool's lock. Resets count until the slot is busy again.
WITH slot AS (
    UPDATE bot_pool_slots
    SET status = 'idle',
        container_id = %(container_id)s,
        gone_container_id = NULL,
        recreate_container = false,
        image = %(image)s,
        limits = %(limits)s,
        phase_at = botpool_now(),
        resets = resets + 1,
        stop_issued_at = NULL,
        next_step_at = NULL,
        step_attempts = 0,
        lease_owner = NULL,
        lease_until = NULL,
        version = version + 1
    WHERE id = %(slot_id)s AND version = %(version)s AND status = 'error'
    RETURNING id, slot_name, container_id, resets
), written AS (
    INSERT INTO history (kind, slot_id, slot_name, from_state, to_state, reason, data)
    SELECT
        'slot.status', slot.id, slot.slot_name, 'error', 'idle', %(reason)s,
        json_build_object('containerId', slot.container_id, 'attempt', slot.resets)
    FROM slot
)
SELECT slot.id AS slot_id, slot.slot_name, slot.container_id FROM slot
