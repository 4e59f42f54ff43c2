-- End a standby whose stop is confirmed: the slot has no run any more. Fenced. The transaction holds the pool's
-- lock, and a match follows, because the slot is assignable again.
WITH slot AS (
    UPDATE bot_pool_slots s
    SET standby = NULL,
        run_id = NULL,
        run_started_at = NULL,
        poll_owner = NULL,
        container_id = CASE WHEN %(container_gone)s THEN NULL ELSE s.container_id END,
        gone_container_id = CASE WHEN %(container_gone)s THEN s.container_id ELSE s.gone_container_id END,
        start_allowed_at = NULL,
        start_issued_at = NULL,
        deployment_id = NULL,
        deployment_status = NULL,
        deployment_ended_at = NULL,
        stop_issued_at = NULL,
        delete_issued_at = NULL,
        next_step_at = NULL,
        step_attempts = 0,
        lease_owner = NULL,
        lease_until = NULL,
        phase_at = botpool_now(),
        version = s.version + 1
    WHERE s.id = %(slot_id)s AND s.version = %(version)s AND s.status = 'idle' AND s.standby = 'stopping'
    RETURNING s.id, s.slot_name, s.container_id
), written AS (
    INSERT INTO history (kind, slot_id, slot_name, from_state, reason)
    SELECT 'slot.standby', slot.id, slot.slot_name, 'stopping', %(reason)s
    FROM slot
)
SELECT slot.id AS slot_id, slot.slot_name, slot.container_id FROM slot
