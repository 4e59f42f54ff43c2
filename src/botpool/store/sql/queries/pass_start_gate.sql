-- Let slots start in the order of their assignment, within the backend's limit of concurrent
-- deployments (null: no limit). The transaction holds the gate's lock.
WITH next AS MATERIALIZED (
    SELECT s.id
    FROM bot_pool_slots s
    WHERE s.backend = %(backend)s AND s.phase = 'waiting_for_start'
    ORDER BY s.last_assigned_at, s.id
    LIMIT CASE WHEN %(limit)s::integer IS NOT NULL THEN greatest(
        %(limit)s - (
            SELECT count(*)
            FROM bot_pool_slots u
            WHERE u.backend = %(backend)s
              AND u.start_allowed_at IS NOT NULL
              AND u.deployment_ended_at IS NULL),
        0) END
), passing AS MATERIALIZED (
    -- Locked in the order of their ids, as every statement that locks several slots.
    SELECT
        s.id, s.pool_name, s.slot_name, s.assigned_bot_id, s.assignment_id, s.last_assigned_at,
        s.phase_at
    FROM bot_pool_slots s
    JOIN next ON next.id = s.id
    WHERE s.phase = 'waiting_for_start'
    ORDER BY s.id
    FOR UPDATE OF s
), slot AS (
    UPDATE bot_pool_slots s
    SET phase = 'starting',
        phase_at = botpool_now(),
        start_allowed_at = botpool_now(),
        next_step_at = botpool_now(),
        step_attempts = 0,
        version = s.version + 1
    FROM passing
    WHERE s.id = passing.id
    RETURNING s.id, s.version
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id)
    SELECT
        'slot.phase', l.assigned_bot_id, l.id, l.assignment_id, l.slot_name,
        'waiting_for_start', 'starting', %(reason)s, b.correlation_id
    FROM passing l
    JOIN bots b ON b.id = l.assigned_bot_id
    ORDER BY l.last_assigned_at, l.id
)
SELECT
    l.id AS slot_id, l.pool_name, slot.version,
    extract(epoch FROM botpool_now() - l.phase_at)::float8 AS waited_s
FROM passing l
JOIN slot ON slot.id = l.id
