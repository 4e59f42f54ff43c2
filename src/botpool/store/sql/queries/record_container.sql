-- Store the id of a deploying slot's container in slot, bot and assignment, and choose the slot's next
-- phase. With its image known and no limit of starts, the slot may start at once; this common case
-- takes no lock. Otherwise the slot waits at the image gate. Fenced. The lease continues, because the
-- same worker opens the gate or starts the container.
WITH next AS MATERIALIZED (
    SELECT
        s.id, s.phase AS from_phase, s.phase_at AS from_phase_at,
        coalesce(s.container_id, s.gone_container_id) AS former_id,
        s.gone_container_id IS NOT NULL AS was_gone,
        CASE
            -- Created again after its start was allowed: the timeout still counts from then.
            WHEN s.phase = 'starting' THEN 'starting'
            WHEN NOT EXISTS (
                SELECT
                FROM known_images k
                WHERE k.backend = s.backend
                  AND k.image_host = %(image_host)s
                  AND k.image = %(image)s
                  AND NOT k.is_missing
                  AND k.last_started_at
                      > botpool_now() - make_interval(secs => %(image_known_s)s)
            ) THEN 'waiting_for_image'
            WHEN %(starts_limited)s THEN 'waiting_for_start'
            ELSE 'starting'
        END AS phase
    FROM bot_pool_slots s
    WHERE s.id = %(slot_id)s
      AND s.assignment_id IS NOT DISTINCT FROM %(assignment_id)s
      AND s.version = %(version)s
      AND (s.status = 'deploying' OR s.standby IN ('starting', 'pulling'))
    FOR UPDATE
), slot AS (
    UPDATE bot_pool_slots s
    SET container_id = %(container_id)s,
        gone_container_id = NULL,
        image_host = %(image_host)s,
        image = %(image)s,
        limits = %(limits)s,
        phase = next.phase,
        phase_at = CASE WHEN s.phase = next.phase THEN s.phase_at ELSE botpool_now() END,
        start_allowed_at = CASE WHEN next.phase = 'starting'
                               THEN coalesce(s.start_allowed_at, botpool_now()) END,
        -- A waiting slot is due when its time at the gate is over.
        next_step_at = CASE WHEN next.phase = 'starting' THEN s.next_step_at
                            ELSE botpool_now() + make_interval(secs => %(wait_timeout_s)s) END,
        lease_until = botpool_now() + make_interval(secs => %(lease_s)s),
        step_attempts = CASE WHEN s.phase = next.phase THEN s.step_attempts ELSE 0 END,
        version = s.version + 1
    FROM next
    WHERE s.id = next.id
    RETURNING
        s.id, s.slot_name, s.assigned_bot_id, s.assignment_id, s.container_id, s.phase, s.version,
        s.lease_until
), bot AS (
    UPDATE bots b
    SET container_id = slot.container_id
    FROM slot
    WHERE b.id = slot.assigned_bot_id
    RETURNING b.correlation_id, b.attempts
), assigned AS (
    UPDATE assignments a
    SET container_id = slot.container_id
    FROM slot
    WHERE a.id = slot.assignment_id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id, data)
    SELECT
        'slot.phase', slot.assigned_bot_id, slot.id, slot.assignment_id, slot.slot_name,
        next.from_phase, slot.phase, %(reason)s, bot.correlation_id,
        json_build_object(
            'containerId', slot.container_id, 'formerContainerId', next.former_id,
            'attempt', bot.attempts)
    FROM slot, next, bot
)
SELECT
    slot.version, slot.lease_until, slot.phase, next.from_phase, next.former_id, next.was_gone,
    extract(epoch FROM botpool_now() - next.from_phase_at)::float8 AS from_phase_s
FROM slot, next
