-- Let slots pass that wait for an image: all whose image is known on their image host and missing on
-- few of its nodes, and of every other image the first slots, which lead its pulls: one, or in a
-- cluster one for each node that may pull at once. The transaction holds the gate's lock.
WITH waiting AS MATERIALIZED (
    SELECT
        s.id, s.pool_name, s.slot_name, s.image_host, s.image, s.assigned_bot_id, s.assignment_id,
        s.last_assigned_at, s.phase_at,
        EXISTS (
            SELECT
            FROM known_images k
            WHERE k.backend = s.backend
              AND k.image_host = s.image_host
              AND k.image = s.image
              AND NOT k.is_missing
              AND k.last_started_at > botpool_now() - make_interval(secs => %(image_known_s)s)
        ) AS known
    FROM bot_pool_slots s
    WHERE s.backend = %(backend)s AND s.phase = 'waiting_for_image'
    ORDER BY s.id
    FOR UPDATE OF s
), leader AS MATERIALIZED (
    SELECT cold.id, number.number
    FROM (
        SELECT
            w.id, w.image_host, w.image,
            row_number() OVER (
                PARTITION BY w.image_host, w.image
                ORDER BY w.assigned_bot_id IS NULL, w.last_assigned_at, w.id) AS nth
        FROM waiting w
        WHERE NOT w.known
    ) AS cold
    JOIN LATERAL (
        -- The numbers that no slot leads with.
        SELECT g.number, row_number() OVER (ORDER BY g.number) AS nth
        FROM generate_series(1, %(concurrent_pulls)s::integer) AS g (number)
        WHERE NOT EXISTS (
            SELECT
            FROM bot_pool_slots l
            WHERE l.backend = %(backend)s
              AND l.image_host = cold.image_host
              AND l.leads_image = cold.image
              AND l.leads_number = g.number)
    ) AS number ON number.nth = cold.nth
), passing AS MATERIALIZED (
    SELECT
        w.id, w.pool_name, w.slot_name, w.image_host, w.image, w.assigned_bot_id, w.assignment_id,
        w.last_assigned_at, w.phase_at,
        leader.id IS NOT NULL AS leads, leader.number
    FROM waiting w
    LEFT JOIN leader ON leader.id = w.id
    WHERE w.known OR leader.id IS NOT NULL
), slot AS (
    UPDATE bot_pool_slots s
    SET phase = 'waiting_for_start',
        phase_at = botpool_now(),
        leads_image = CASE WHEN passing.leads THEN s.image END,
        leads_number = coalesce(passing.number, s.leads_number),
        next_step_at = botpool_now() + make_interval(secs => %(wait_timeout_s)s),
        step_attempts = 0,
        version = s.version + 1
    FROM passing
    WHERE s.id = passing.id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id, data)
    SELECT
        'slot.phase', l.assigned_bot_id, l.id, l.assignment_id, l.slot_name,
        'waiting_for_image', 'waiting_for_start',
        CASE WHEN l.leads THEN %(leads_reason)s ELSE %(present_reason)s END,
        b.correlation_id,
        json_build_object('image', l.image, 'imageHost', l.image_host, 'leads', l.leads)
    FROM passing l
    LEFT JOIN bots b ON b.id = l.assigned_bot_id
    ORDER BY l.last_assigned_at, l.id
)
SELECT
    l.id AS slot_id, l.pool_name, l.slot_name, l.image, l.image_host, l.leads,
    l.assigned_bot_id AS bot_id, b.correlation_id,
    extract(epoch FROM botpool_now() - l.phase_at)::float8 AS waited_s
FROM passing l
LEFT JOIN bots b ON b.id = l.assigned_bot_id
