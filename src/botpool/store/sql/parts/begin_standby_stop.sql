-- Begin the stop of the runs without a bot in the locked slots.
), slot AS (
    UPDATE bot_pool_slots s
    SET standby = 'stopping',
        phase = NULL,
        phase_at = botpool_now(),
        poll_owner = NULL,
        leads_image = NULL,
        stop_issued_at = NULL,
        next_step_at = botpool_now(),
        step_attempts = 0,
        version = s.version + 1
    FROM locked
    WHERE s.id = locked.id
    RETURNING s.id, s.slot_name, s.container_id, s.run_id, locked.standby AS former
), written AS (
    INSERT INTO history (kind, slot_id, slot_name, from_state, to_state, reason, data)
    SELECT
        'slot.standby', slot.id, slot.slot_name, slot.former, 'stopping', %(reason)s,
        json_build_object('runId', slot.run_id)
    FROM slot
