-- Let slots start in the order of their assignment, within the backend's limit of concurrent
-- deployments (null: no limit) and the permits of their egress. A permit is spent in the transaction
-- that allows the start. The transaction holds the gate's lock, which guards one backend; the rows of
-- the egresses are locked because pools of other backends may share them.
WITH waiting AS MATERIALIZED (
    SELECT
        s.id, s.assigned_bot_id IS NULL AS is_standby, s.last_assigned_at, p.egress,
        row_number() OVER (PARTITION BY p.egress ORDER BY s.last_assigned_at, s.id) AS nth
    FROM bot_pool_slots s
    JOIN pools p ON p.pool_name = s.pool_name
    WHERE s.backend = %(backend)s AND s.phase = 'waiting_for_start'
), locked AS MATERIALIZED (
    SELECT e AS state
    FROM egresses e
    WHERE e.egress = ANY (ARRAY(SELECT w.egress FROM waiting w))
    ORDER BY e.egress
    FOR UPDATE
), egress AS MATERIALIZED (
    SELECT (l.state).egress, l.state, botpool_allowed_starts(l.state) AS starts
    FROM locked l
), next AS MATERIALIZED (
    SELECT w.id
    FROM waiting w
    LEFT JOIN egress ON egress.egress = w.egress
    WHERE w.egress IS NULL OR w.nth <= egress.starts
    -- Bots go first: a standby must not take their start.
    ORDER BY w.is_standby, w.last_assigned_at, w.id
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
), started AS MATERIALIZED (
    SELECT p.egress, count(*) AS starts, max(passing.assignment_id) AS assignment_id
    FROM passing
    JOIN pools p ON p.pool_name = passing.pool_name
    WHERE p.egress IS NOT NULL
    GROUP BY p.egress
), spent AS (
    UPDATE egresses e
    SET pace = botpool_pace(egress.state),
        permits = greatest(botpool_permits(egress.state) - started.starts, 0),
        counted_at = botpool_now(),
        breaker = CASE WHEN e.breaker = 'closed' THEN 'closed' ELSE 'half_open' END,
        probe_at = CASE WHEN e.breaker <> 'closed'
                             THEN botpool_now() + make_interval(secs => e.pause_s) END,
        probe_assignment_id = CASE WHEN e.breaker <> 'closed' THEN started.assignment_id END
    FROM started
    JOIN egress ON egress.egress = started.egress
    WHERE e.egress = started.egress
), probing AS (
    INSERT INTO history (kind, assignment_id, from_state, to_state, reason, data)
    SELECT
        'egress.breaker', started.assignment_id, (egress.state).breaker, 'half_open',
        %(probe_reason)s, json_build_object('egress', started.egress)
    FROM started
    JOIN egress ON egress.egress = started.egress
    WHERE (egress.state).breaker <> 'closed'
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id)
    SELECT
        'slot.phase', l.assigned_bot_id, l.id, l.assignment_id, l.slot_name,
        'waiting_for_start', 'starting', %(reason)s, b.correlation_id
    FROM passing l
    LEFT JOIN bots b ON b.id = l.assigned_bot_id
    ORDER BY l.last_assigned_at, l.id
)
SELECT
    l.id AS slot_id, l.pool_name, slot.version,
    extract(epoch FROM botpool_now() - l.phase_at)::float8 AS waited_s
FROM passing l
JOIN slot ON slot.id = l.id
