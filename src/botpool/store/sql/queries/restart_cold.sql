-- Start a bot cold in its slot after the confirmed stop of the standby that did not accept it: the same attempt
-- under a new assignment, also in a cordoned slot. Fenced. No row if the bot has ended meanwhile.
WITH held AS MATERIALIZED (
    SELECT s.id, s.assignment_id, s.assigned_bot_id
    FROM bot_pool_slots s
    WHERE s.id = %(slot_id)s
      AND s.assignment_id = %(assignment_id)s
      AND s.version = %(version)s
      AND s.status = 'releasing'
      AND s.standby = 'stopping'
    FOR UPDATE
), new AS MATERIALIZED (
    SELECT
        held.id AS slot_id, held.assignment_id AS former_id, b.id AS bot_id, b.attempts, b.correlation_id,
        nextval('assignments_id_seq') AS assignment_id
    FROM held
    JOIN bots b ON b.id = held.assigned_bot_id
    WHERE (b.status = 'DEPLOYING') IS TRUE
    FOR UPDATE OF b
), slot AS (
    UPDATE bot_pool_slots s
    SET status = 'deploying',
        phase = 'creating',
        phase_at = botpool_now(),
        assignment_id = new.assignment_id,
        run_id = new.assignment_id,
        standby = NULL,
        run_started_at = NULL,
        container_id = CASE WHEN %(container_gone)s THEN NULL ELSE s.container_id END,
        gone_container_id = CASE WHEN %(container_gone)s THEN s.container_id ELSE s.gone_container_id END,
        start_allowed_at = NULL,
        start_issued_at = NULL,
        deployment_id = NULL,
        deployment_status = NULL,
        deployment_ended_at = NULL,
        stop_issued_at = NULL,
        delete_issued_at = NULL,
        next_step_at = botpool_now(),
        step_attempts = 0,
        lease_owner = NULL,
        lease_until = NULL,
        version = s.version + 1
    FROM new
    WHERE s.id = new.slot_id
    RETURNING s.id, s.slot_name, s.pool_name, s.container_id
), ended AS (
    UPDATE assignments a SET ended_at = botpool_now() FROM new WHERE a.id = new.former_id
), assigned AS (
    INSERT INTO assignments (
        id, bot_id, slot_id, slot_name, pool_name, attempt, warm, container_id, assigned_at)
    SELECT
        new.assignment_id, new.bot_id, slot.id, slot.slot_name, slot.pool_name, new.attempts,
        slot.container_id IS NOT NULL, slot.container_id, botpool_now()
    FROM new, slot
), bot AS (
    UPDATE bots b SET assignment_id = new.assignment_id FROM new WHERE b.id = new.bot_id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason, correlation_id, data)
    SELECT
        'slot.status', new.bot_id, slot.id, new.assignment_id, slot.slot_name, 'releasing', 'deploying',
        %(reason)s, new.correlation_id, json_build_object('formerAssignmentId', new.former_id)
    FROM new, slot
)
SELECT slot.id AS slot_id, slot.slot_name, slot.container_id, new.bot_id, new.correlation_id
FROM new, slot
