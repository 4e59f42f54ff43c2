-- Let slots start in the order of their assignment, within the backend's limit of concurrent
-- deployments (null: no limit) and the permits of their egress. A permit is spent in the transaction
-- that allows the start; a standby needs none, because it joins no meeting. The transaction holds the
-- gate's lock, which guards one backend; the rows of the egresses are locked because pools of other
-- backends may share them.
WITH waiting AS MATERIALIZED (
    SELECT
        w.id, w.is_standby, w.last_assigned_at, w.egress,
        row_number() OVER (PARTITION BY w.egress ORDER BY w.last_assigned_at, w.id) AS nth
    FROM (
        SELECT
            s.id,
            s.assigned_bot_id IS NULL AND behind.first_assigned_at IS NULL AS is_standby,
            CASE WHEN s.assigned_bot_id IS NULL THEN coalesce(behind.first_assigned_at, s.last_assigned_at)
                 ELSE s.last_assigned_at END AS last_assigned_at,
            CASE WHEN s.assigned_bot_id IS NOT NULL THEN p.egress END AS egress
        FROM bot_pool_slots s
        JOIN pools p ON p.pool_name = s.pool_name
        -- A standby that leads the pull for waiting bots has the place of the first of them: they
        -- cannot start before it.
        CROSS JOIN LATERAL (
            SELECT min(w.last_assigned_at) AS first_assigned_at
            FROM bot_pool_slots w
            WHERE s.leads_image IS NOT NULL
              AND w.backend = s.backend
              AND w.image_host = s.image_host
              AND w.image = s.leads_image
              AND w.phase = 'waiting_for_image'
              AND w.assigned_bot_id IS NOT NULL
        ) AS behind
        WHERE s.backend = %(backend)s AND s.phase = 'waiting_for_start'
    ) AS w
), locked AS MATERIALIZED (
    SELECT e AS state
    FROM egresses e
    WHERE e.egress = ANY (ARRAY(SELECT w.egress FROM waiting w))
    ORDER BY e.egress
    FOR UPDATE
), egress AS MATERIALIZED (
    SELECT (l.state).egress, botpool_allowed_starts(l.state) AS starts
    FROM locked l
), room AS MATERIALIZED (
    SELECT %(limit)s::integer - count(*) AS starts
    FROM bot_pool_slots u
    WHERE u.backend = %(backend)s
      AND u.start_allowed_at IS NOT NULL
      AND u.deployment_ended_at IS NULL
), next AS MATERIALIZED (
    SELECT ready.id
    FROM (
        SELECT
            w.id, w.is_standby,
            -- Bots go first: a standby must not take their start.
            row_number() OVER (ORDER BY w.is_standby, w.last_assigned_at, w.id) AS nth
        FROM waiting w
        LEFT JOIN egress ON egress.egress = w.egress
        WHERE w.egress IS NULL OR w.nth <= egress.starts
    ) AS ready
    CROSS JOIN room
    -- Standbys leave one start of the limit to the next bot.
    WHERE room.starts IS NULL
       OR ready.nth <= room.starts - CASE WHEN ready.is_standby AND %(limit)s > 1 THEN 1 ELSE 0 END
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
    WHERE p.egress IS NOT NULL AND passing.assigned_bot_id IS NOT NULL
    GROUP BY p.egress
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
-- Once for each egress.
WHERE (
    SELECT coalesce(
        bool_and(botpool_spend_permits(started.egress, started.starts, started.assignment_id, %(probe_reason)s)),
        true)
    FROM started)
