-- The stop is confirmed: the slot has no bot any more. The only statement that clears
-- assigned_bot_id. Fenced; the pool's lock is held, and the match follows in this transaction.
WITH former AS MATERIALIZED (
    SELECT s.id, s.assigned_bot_id, s.assignment_id, s.container_id, s.phase_at
    FROM bot_pool_slots s
    WHERE s.id = %(slot_id)s
      AND s.assignment_id = %(assignment_id)s
      AND s.version = %(version)s
      AND s.status = 'releasing'
    FOR UPDATE
), slot AS (
    UPDATE bot_pool_slots s
    SET status = %(status)s,
        error_message = %(error_message)s,
        container_id = CASE WHEN %(container_gone)s THEN NULL ELSE s.container_id END,
        phase_at = botpool_now(),
        assigned_bot_id = NULL,
        assignment_id = NULL,
        deployment_id = NULL,
        start_wanted_at = NULL,
        deployment_ended_at = NULL,
        leads_image = NULL,
        start_issued_at = NULL,
        stop_issued_at = NULL,
        delete_issued_at = NULL,
        last_released_at = botpool_now(),
        next_step_at = CASE WHEN %(status)s = 'error' THEN botpool_now() END,
        step_tries = 0,
        lease_owner = NULL,
        lease_until = NULL,
        version = s.version + 1
    FROM former
    WHERE s.id = former.id
    RETURNING s.id, s.slot_name, s.container_id, s.backend
), assigned AS (
    UPDATE assignments a
    SET ended_at = botpool_now()
    FROM former
    WHERE a.id = former.assignment_id
    RETURNING a.assigned_at
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id, data)
    SELECT
        'slot.status', former.assigned_bot_id, slot.id, former.assignment_id, slot.slot_name,
        'releasing', %(status)s, %(reason)s, b.correlation_id,
        CASE WHEN %(container_gone)s
             THEN json_build_object('goneContainerId', former.container_id) END
    FROM slot
    JOIN former ON former.id = slot.id
    JOIN bots b ON b.id = former.assigned_bot_id
)
SELECT
    slot.id AS slot_id, slot.slot_name, slot.container_id, former.assigned_bot_id AS bot_id,
    b.status AS bot_status, b.correlation_id, slot.backend,
    EXISTS (
        SELECT
        FROM bot_pool_slots w
        WHERE w.backend = slot.backend AND w.phase IN ('waiting_for_image', 'waiting_for_start')
    ) AS others_wait,
    extract(epoch FROM botpool_now() - assigned.assigned_at)::float8 AS occupied_s,
    extract(epoch FROM botpool_now() - former.phase_at)::float8 AS releasing_s
FROM slot
JOIN former ON former.id = slot.id
JOIN bots b ON b.id = former.assigned_bot_id
CROSS JOIN assigned
