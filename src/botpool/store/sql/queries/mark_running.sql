-- Make a deploying slot busy because its container runs; its bot joins the call, or waits in its
-- container until its time if it is scheduled. Evidence is an
-- observation (fenced by the version it read) or an authenticated call of the current agent (no
-- version: the token is the fence). A slot that is not deploying does not change.
WITH slot AS (
    UPDATE bot_pool_slots s
    SET status = 'busy',
        phase = NULL,
        phase_at = botpool_now(),
        resets = 0,
        skipped_recoveries = 0,
        last_used_at = CASE WHEN %(healed)s THEN botpool_now() ELSE s.last_used_at END,
        -- A running container proves that its deployment finished and that its image is present.
        deployment_ended_at = coalesce(s.deployment_ended_at, botpool_now()),
        leads_image = NULL,
        next_step_at = CASE WHEN %(max_duration_s)s::float8 > 0
                            THEN botpool_now() + make_interval(secs => %(max_duration_s)s) END,
        step_attempts = 0,
        version = s.version + 1
    FROM assignments a
    WHERE a.id = %(assignment_id)s
      AND s.id = a.slot_id
      AND s.assignment_id = a.id
      AND s.status = 'deploying'
      -- Only its accept makes the slot of a standby busy: the container ran before.
      AND s.phase <> 'handing_over'
      AND (%(version)s::bigint IS NULL OR s.version = %(version)s)
    RETURNING
        s.id, s.slot_name, s.assigned_bot_id, s.assignment_id, s.container_id, s.backend,
        s.image_host, s.image, s.start_allowed_at, s.deployment_id, s.deployment_status,
        coalesce(s.run_id, s.assignment_id) AS run_id
), known AS (
    INSERT INTO known_images AS k (backend, image_host, image, last_started_at)
    SELECT slot.backend, slot.image_host, slot.image, botpool_now()
    FROM slot
    WHERE slot.image_host IS NOT NULL
      -- In the common case the row is fresh, and starts do not wait for each other's row lock.
      AND NOT EXISTS (
          SELECT
          FROM known_images f
          WHERE f.backend = slot.backend
            AND f.image_host = slot.image_host
            AND f.image = slot.image
            AND f.last_started_at > botpool_now() - make_interval(secs => %(image_fresh_s)s))
    ON CONFLICT (backend, image_host, image)
        DO UPDATE SET last_started_at = EXCLUDED.last_started_at
), assigned AS (
    UPDATE assignments a
    SET running_at = coalesce(a.running_at, botpool_now()),
        observed_running_at = CASE WHEN %(by_agent)s THEN a.observed_running_at
                               ELSE coalesce(a.observed_running_at, botpool_now()) END,
        agent_called_at = CASE WHEN %(by_agent)s THEN coalesce(a.agent_called_at, botpool_now())
                               ELSE a.agent_called_at END
    FROM slot
    WHERE a.id = slot.assignment_id
    RETURNING a.pool_name, a.warm, a.assigned_at
), bot AS (
    UPDATE bots b
    SET status = CASE WHEN b.join_at > botpool_now() THEN 'DEPLOYING' ELSE 'JOINING_CALL' END,
        started_at = coalesce(b.started_at, botpool_now())
    FROM slot
    -- IS TRUE keeps the planner on the primary key, also with a plan made for a small table.
    WHERE b.id = slot.assigned_bot_id AND (b.status = 'DEPLOYING') IS TRUE
    RETURNING b.id, b.correlation_id, b.status, b.join_at
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id)
    SELECT
        v.kind, bot.id, slot.id, slot.assignment_id, slot.slot_name, v.from_state, v.to_state,
        %(reason)s, bot.correlation_id
    FROM slot
    JOIN bot ON bot.id = slot.assigned_bot_id
    CROSS JOIN LATERAL (
        VALUES ('slot.status', 'deploying', 'busy'), ('bot.status', 'DEPLOYING', 'JOINING_CALL')
    ) AS v (kind, from_state, to_state)
    WHERE v.kind = 'slot.status' OR bot.status = 'JOINING_CALL'
)
SELECT
    slot.id AS slot_id, slot.slot_name, slot.container_id, bot.id AS bot_id, bot.correlation_id,
    CASE WHEN bot.status = 'JOINING_CALL' THEN extract(epoch FROM botpool_now() - bot.join_at)::float8 END
        AS late_s,
    (SELECT k.on_time_probability FROM bookings k WHERE k.bot_id = bot.id) AS on_time_probability,
    slot.backend, slot.run_id, slot.deployment_id, slot.deployment_status, assigned.pool_name, assigned.warm,
    extract(epoch FROM botpool_now() - assigned.assigned_at)::float8 AS deploying_s,
    extract(epoch FROM botpool_now() - slot.start_allowed_at)::float8 AS starting_s,
    EXISTS (
        SELECT
        FROM bot_pool_slots w
        WHERE w.backend = slot.backend AND w.phase IN ('waiting_for_image', 'waiting_for_start')
    ) AS others_wait
FROM slot
JOIN bot ON bot.id = slot.assigned_bot_id
CROSS JOIN assigned
