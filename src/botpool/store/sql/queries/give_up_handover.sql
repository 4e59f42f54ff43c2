-- Give up a hand-over that the standby did not accept, and begin its stop. The bot keeps the slot, in which it
-- starts cold once the stop is confirmed. Fenced: an accept that came first wins.
WITH slot AS (
    UPDATE bot_pool_slots
    SET status = 'releasing',
        phase = NULL,
        phase_at = botpool_now(),
        standby = 'stopping',
        poll_owner = NULL,
        leads_image = NULL,
        next_step_at = botpool_now(),
        step_attempts = 0,
        lease_owner = CASE WHEN %(holds_lease)s THEN NULL ELSE lease_owner END,
        lease_until = CASE WHEN %(holds_lease)s THEN NULL ELSE lease_until END,
        version = version + 1
    WHERE id = %(slot_id)s
      AND assignment_id = %(assignment_id)s
      AND version = %(version)s
      AND phase = 'handing_over'
    RETURNING id, slot_name, pool_name, assigned_bot_id, assignment_id, container_id
), assigned AS (
    UPDATE assignments a
    SET failure = %(reason)s
    FROM slot
    WHERE a.id = slot.assignment_id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason, correlation_id)
    SELECT
        'slot.status', slot.assigned_bot_id, slot.id, slot.assignment_id, slot.slot_name,
        'deploying', 'releasing', %(reason)s, b.correlation_id
    FROM slot
    JOIN bots b ON b.id = slot.assigned_bot_id
)
SELECT
    slot.id AS slot_id, slot.slot_name, slot.container_id, slot.assigned_bot_id AS bot_id, b.correlation_id
FROM slot
JOIN bots b ON b.id = slot.assigned_bot_id
