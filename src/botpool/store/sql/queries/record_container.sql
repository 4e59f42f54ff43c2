-- The container exists: slot, bot and assignment learn its id together, and the start is wanted.
-- Fenced. The lease goes on: the same worker starts it next.
WITH slot AS (
    UPDATE bot_pool_slots
    SET container_id = %(container_id)s,
        image = %(image)s,
        phase = 'starting',
        -- Made again in the same phase: the limit of waiting still counts from its beginning.
        phase_at = CASE WHEN phase = 'starting' THEN phase_at ELSE botpool_now() END,
        lease_until = botpool_now() + make_interval(secs => %(lease_s)s),
        step_tries = CASE WHEN phase = 'starting' THEN step_tries ELSE 0 END,
        version = version + 1
    WHERE id = %(slot_id)s
      AND assignment_id = %(assignment_id)s
      AND version = %(version)s
      AND status = 'deploying'
    RETURNING
        id, slot_name, assigned_bot_id, assignment_id, container_id, version, lease_until
), bot AS (
    UPDATE bots b
    SET container_id = slot.container_id
    FROM slot
    WHERE b.id = slot.assigned_bot_id
    RETURNING b.correlation_id
), assigned AS (
    UPDATE assignments a SET container_id = slot.container_id FROM slot WHERE a.id = slot.assignment_id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id, data)
    SELECT
        'slot.phase', slot.assigned_bot_id, slot.id, slot.assignment_id, slot.slot_name,
        %(from_phase)s, 'starting', %(reason)s, bot.correlation_id,
        json_build_object('containerId', slot.container_id, 'formerContainerId', %(former_id)s::text)
    FROM slot, bot
)
SELECT slot.version, slot.lease_until FROM slot
