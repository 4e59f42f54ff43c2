-- Give up a deployment and start the release of its slot. The bot keeps the slot until the stop is
-- confirmed; only then the bot is queued again or fails with the failure code. Fenced.
WITH slot AS (
    UPDATE bot_pool_slots
    SET status = 'releasing',
        phase = NULL,
        phase_at = botpool_now(),
        standby = NULL,
        poll_owner = NULL,
        next_step_at = botpool_now(),
        step_attempts = 0,
        -- Another slot may lead the pull now, even if this start still pulls.
        leads_image = NULL,
        start_allowed_at = CASE WHEN %(nothing_started)s THEN NULL ELSE start_allowed_at END,
        error_message = %(reason)s,
        error_at = botpool_now(),
        recreate_container = %(stuck)s,
        deployment_ended_at = CASE WHEN %(deployment_over)s
                                   THEN coalesce(deployment_ended_at, botpool_now())
                                   ELSE deployment_ended_at END,
        lease_owner = NULL,
        lease_until = NULL,
        version = version + 1
    WHERE id = %(slot_id)s
      AND assignment_id = %(assignment_id)s
      AND version = %(version)s
      AND status = 'deploying'
    RETURNING id, slot_name, assigned_bot_id, assignment_id, container_id, backend
), assigned AS (
    UPDATE assignments a
    SET failure = %(reason)s,
        failure_code = %(failure_code)s,
        infrastructure_fault = %(infrastructure_fault)s
    FROM slot
    WHERE a.id = slot.assignment_id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id)
    SELECT
        'slot.status', slot.assigned_bot_id, slot.id, slot.assignment_id, slot.slot_name,
        'deploying', 'releasing', %(reason)s, b.correlation_id
    FROM slot
    JOIN bots b ON b.id = slot.assigned_bot_id
)
SELECT
    slot.id AS slot_id, slot.slot_name, slot.container_id, slot.assigned_bot_id AS bot_id,
    b.correlation_id, slot.backend,
    EXISTS (
        SELECT
        FROM bot_pool_slots w
        WHERE w.backend = slot.backend AND w.phase IN ('waiting_for_image', 'waiting_for_start')
    ) AS others_wait
FROM slot
JOIN bots b ON b.id = slot.assigned_bot_id
