-- The container exists: slot, bot and assignment learn its id together, and its start is wanted.
-- With its image known, and no budget of starts, it may start at once: this is the common way, and
-- takes no lock. Otherwise it waits, until the gate lets it through. Fenced. The lease goes on: the
-- same worker asks the gate, or starts it.
WITH way AS MATERIALIZED (
    SELECT
        s.id, s.phase AS from_phase, s.phase_at AS from_phase_at, s.container_id AS former_id,
        CASE
            -- Made again after it was let through: the limit still counts from then.
            WHEN s.phase = 'starting' THEN 'starting'
            WHEN NOT EXISTS (
                SELECT
                FROM known_images k
                WHERE k.backend = s.backend
                  AND k.image_host = %(image_host)s
                  AND k.image = %(image)s
                  AND k.last_started_at
                      > botpool_now() - make_interval(secs => %(image_known_s)s)
            ) THEN 'waiting_for_image'
            WHEN %(starts_limited)s THEN 'waiting_for_start'
            ELSE 'starting'
        END AS phase
    FROM bot_pool_slots s
    WHERE s.id = %(slot_id)s
      AND s.assignment_id = %(assignment_id)s
      AND s.version = %(version)s
      AND s.status = 'deploying'
    FOR UPDATE
), slot AS (
    UPDATE bot_pool_slots s
    SET container_id = %(container_id)s,
        image_host = %(image_host)s,
        image = %(image)s,
        limits = %(limits)s,
        phase = way.phase,
        phase_at = CASE WHEN s.phase = way.phase THEN s.phase_at ELSE botpool_now() END,
        start_allowed_at = CASE WHEN way.phase = 'starting'
                               THEN coalesce(s.start_allowed_at, botpool_now()) END,
        -- Who waits is due when its time is up, and not before.
        next_step_at = CASE WHEN way.phase = 'starting' THEN s.next_step_at
                            ELSE botpool_now() + make_interval(secs => %(wait_timeout_s)s) END,
        lease_until = botpool_now() + make_interval(secs => %(lease_s)s),
        step_attempts = CASE WHEN s.phase = way.phase THEN s.step_attempts ELSE 0 END,
        version = s.version + 1
    FROM way
    WHERE s.id = way.id
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
    UPDATE assignments a SET container_id = slot.container_id FROM slot WHERE a.id = slot.assignment_id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id, data)
    SELECT
        'slot.phase', slot.assigned_bot_id, slot.id, slot.assignment_id, slot.slot_name,
        way.from_phase, slot.phase, %(reason)s, bot.correlation_id,
        json_build_object(
            'containerId', slot.container_id, 'formerContainerId', way.former_id,
            'attempt', bot.attempts)
    FROM slot, way, bot
)
SELECT
    slot.version, slot.lease_until, slot.phase, way.from_phase,
    extract(epoch FROM botpool_now() - way.from_phase_at)::float8 AS from_phase_s
FROM slot, way
