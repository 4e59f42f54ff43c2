-- Accept bots: the slot of each standby becomes busy, and its bot joins the call, or waits until its time if it
-- is scheduled. Each is fenced by its assignment, run, container and phase; only the first boot accepts. Locks
-- slots before bots, in the order of their ids. Returns only accepted bots.
WITH held AS MATERIALIZED (
    SELECT s.id, e.boot_id
    FROM unnest(
        %(assignment_ids)s::bigint[], %(run_ids)s::bigint[], %(container_ids)s::text[], %(boot_ids)s::text[]
    ) AS e (assignment_id, run_id, container_id, boot_id)
    JOIN assignments a ON a.id = e.assignment_id
    JOIN bot_pool_slots s ON s.id = a.slot_id AND s.assignment_id = a.id
    -- Keeps the planner on the primary key, also with a plan made for a small table.
    WHERE a.id = ANY (%(assignment_ids)s::bigint[])
      AND s.run_id = e.run_id
      AND s.container_id = e.container_id
      AND s.phase = 'handing_over'
    ORDER BY s.id
    FOR UPDATE OF s
), slot AS (
    UPDATE bot_pool_slots s
    SET status = 'busy',
        phase = NULL,
        phase_at = botpool_now(),
        standby = NULL,
        poll_owner = NULL,
        resets = 0,
        skipped_recoveries = 0,
        next_step_at = CASE WHEN %(max_duration_s)s::float8 > 0
                            THEN botpool_now() + make_interval(secs => %(max_duration_s)s) END,
        step_attempts = 0,
        version = s.version + 1
    FROM held
    WHERE s.id = held.id
    RETURNING
        s.id, s.slot_name, s.assigned_bot_id, s.assignment_id, s.container_id, s.backend, s.run_id,
        s.deployment_id, held.boot_id
), assigned AS (
    UPDATE assignments a
    SET running_at = botpool_now(), agent_called_at = botpool_now(), boot_id = slot.boot_id
    FROM slot
    WHERE a.id = slot.assignment_id
    RETURNING a.id, a.pool_name, a.assigned_at
), bot AS (
    UPDATE bots b
    SET status = CASE WHEN b.join_at > botpool_now() THEN 'DEPLOYING' ELSE 'JOINING_CALL' END,
        started_at = coalesce(b.started_at, botpool_now())
    FROM slot
    -- IS TRUE keeps the planner on the primary key, also with a plan made for a small table.
    WHERE b.id = slot.assigned_bot_id AND (b.status = 'DEPLOYING') IS TRUE
    RETURNING b.id, b.correlation_id, b.status
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason, correlation_id)
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
    slot.backend, slot.run_id, slot.deployment_id, assigned.pool_name,
    extract(epoch FROM botpool_now() - assigned.assigned_at)::float8 AS deploying_s
FROM slot
JOIN bot ON bot.id = slot.assigned_bot_id
JOIN assigned ON assigned.id = slot.assignment_id
