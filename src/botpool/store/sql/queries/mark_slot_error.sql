-- Take an idle slot to error, so that the reconciler resets it before the next bot. Fenced.
WITH slot AS (
    UPDATE bot_pool_slots
    SET status = 'error',
        error_message = %(reason)s,
        error_at = botpool_now(),
        phase = NULL,
        standby = NULL,
        run_id = NULL,
        run_started_at = NULL,
        poll_owner = NULL,
        leads_image = NULL,
        start_allowed_at = NULL,
        start_issued_at = NULL,
        deployment_id = NULL,
        deployment_status = NULL,
        deployment_ended_at = NULL,
        stop_issued_at = NULL,
        lease_owner = CASE WHEN %(holds_lease)s THEN NULL ELSE lease_owner END,
        lease_until = CASE WHEN %(holds_lease)s THEN NULL ELSE lease_until END,
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
