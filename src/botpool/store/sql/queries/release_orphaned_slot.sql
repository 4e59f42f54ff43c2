-- Start the release of a slot whose bot has already ended. Fenced.
WITH held AS MATERIALIZED (
    SELECT s.id, s.slot_name, s.status, s.assigned_bot_id, s.assignment_id, s.container_id
    FROM bot_pool_slots s
    JOIN bots b ON b.id = s.assigned_bot_id
    WHERE s.id = %(slot_id)s
      AND s.assignment_id = %(assignment_id)s
      AND s.version = %(version)s
      AND s.status IN ('deploying', 'busy')
      AND b.ended_at IS NOT NULL
    FOR UPDATE OF s
), slot AS (
    UPDATE bot_pool_slots s
    SET status = 'releasing',
        phase = NULL,
        phase_at = botpool_now(),
        standby = NULL,
        poll_owner = NULL,
        next_step_at = botpool_now(),
        step_attempts = 0,
        version = s.version + 1
    FROM held
    WHERE s.id = held.id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id)
    SELECT
        'slot.status', held.assigned_bot_id, held.id, held.assignment_id, held.slot_name,
        held.status, 'releasing', %(reason)s, b.correlation_id
    FROM held
    JOIN bots b ON b.id = held.assigned_bot_id
)
SELECT
    held.id AS slot_id, held.slot_name, held.container_id, held.status,
    held.assigned_bot_id AS bot_id, b.correlation_id
FROM held
JOIN bots b ON b.id = held.assigned_bot_id
