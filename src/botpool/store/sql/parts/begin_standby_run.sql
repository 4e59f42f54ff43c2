-- Begin a run without a bot in each chosen slot, which becomes the standby that `chosen` names.
), slot AS (
    UPDATE bot_pool_slots s
    SET standby = chosen.becomes,
        phase = 'creating',
        phase_at = botpool_now(),
        run_id = nextval('assignments_id_seq'),
        run_started_at = NULL,
        poll_owner = NULL,
        next_step_at = botpool_now(),
        step_attempts = 0,
        version = s.version + 1
    FROM chosen
    WHERE s.id = chosen.id
    RETURNING s.id, s.slot_name, s.container_id, s.run_id, s.standby
), written AS (
    INSERT INTO history (kind, slot_id, slot_name, to_state, reason, data)
    SELECT
        'slot.standby', slot.id, slot.slot_name, slot.standby, %(reason)s,
        json_build_object('runId', slot.run_id)
    FROM slot
