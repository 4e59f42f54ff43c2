-- End a match: assign the chosen heads of the queue to the slots with the lowest claim_rank.
), free AS MATERIALIZED (
    SELECT
        f.id, f.slot_name, f.container_id, f.last_used_at, f.run_id, f.poll_owner, f.is_hot,
        (SELECT w.handover_timeout_s FROM wanted w) AS handover_timeout_s,
        row_number() OVER (ORDER BY f.claim_rank, f.last_used_at NULLS FIRST, f.number) AS n
    FROM (
        SELECT
            s.id, s.slot_name, s.container_id, s.claim_rank, s.last_used_at, s.number, s.run_id,
            s.poll_owner, s.standby IS NOT NULL AND s.start_allowed_at IS NOT NULL AS is_hot
        FROM bot_pool_slots s
        WHERE s.pool_name = %(pool_name)s AND s.claim_rank IS NOT NULL
        ORDER BY s.claim_rank, s.last_used_at NULLS FIRST, s.number
        LIMIT (SELECT count(*) FROM heads)
        FOR UPDATE SKIP LOCKED
    ) AS f
), pair AS MATERIALIZED (
    SELECT
        heads.n, heads.bot_id, b.tenant_id, b.status AS bot_status, b.correlation_id, b.attempts + 1 AS attempt,
        free.id AS slot_id, free.slot_name, free.container_id, free.run_id, free.poll_owner, free.is_hot,
        free.handover_timeout_s,
        CASE WHEN free.last_used_at IS NULL THEN %(new_slot_reason)s::text ELSE %(freed_slot_reason)s::text END
            AS reason,
        nextval('assignments_id_seq') AS assignment_id
    FROM heads
    JOIN free ON free.n = heads.n
    JOIN bots b ON b.id = heads.bot_id
    -- The array makes the plan use the index on the id, also with a large estimate.
    WHERE b.id = ANY (ARRAY(SELECT h.bot_id FROM heads h))
), unqueued AS (
    -- No join: a plan from a time with an empty queue would scan the whole queue.
    DELETE FROM bot_pool_queue q WHERE q.bot_id = ANY (ARRAY(SELECT pair.bot_id FROM pair))
), taken AS (
    UPDATE bot_pool_slots s
    SET status = 'deploying',
        phase = CASE WHEN pair.is_hot THEN 'handing_over' ELSE 'creating' END,
        phase_at = botpool_now(),
        assigned_bot_id = pair.bot_id,
        assignment_id = pair.assignment_id,
        run_id = CASE WHEN pair.is_hot THEN s.run_id ELSE pair.assignment_id END,
        standby = CASE WHEN pair.is_hot THEN s.standby END,
        leads_image = CASE WHEN pair.is_hot THEN s.leads_image END,
        tenant_id = pair.tenant_id,
        last_assigned_at = botpool_now(),
        last_used_at = botpool_now(),
        error_message = NULL,
        error_at = NULL,
        next_step_at = CASE
            WHEN pair.is_hot AND s.run_started_at IS NOT NULL
                THEN botpool_now() + make_interval(secs => pair.handover_timeout_s)
            WHEN pair.is_hot AND s.start_issued_at IS NOT NULL THEN s.next_step_at
            ELSE botpool_now() END,
        step_attempts = 0,
        version = s.version + 1
    FROM pair
    WHERE s.id = pair.slot_id AND s.id = ANY (ARRAY(SELECT p.slot_id FROM pair p))
), deploying AS (
    UPDATE bots b
    SET status = 'DEPLOYING',
        attempts = pair.attempt,
        assignment_id = pair.assignment_id,
        assigned_at = botpool_now(),
        slot_name = pair.slot_name,
        container_id = pair.container_id
    FROM pair
    WHERE b.id = pair.bot_id AND b.id = ANY (ARRAY(SELECT p.bot_id FROM pair p))
), assigned AS (
    INSERT INTO assignments (
        id, bot_id, slot_id, slot_name, pool_name, attempt, warm, run_id, container_id, assigned_at)
    SELECT
        pair.assignment_id, pair.bot_id, pair.slot_id, pair.slot_name, %(pool_name)s, pair.attempt,
        pair.container_id IS NOT NULL, CASE WHEN pair.is_hot THEN pair.run_id END, pair.container_id,
        botpool_now()
    FROM pair
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id)
    SELECT
        v.kind, pair.bot_id, pair.slot_id, pair.assignment_id, pair.slot_name, v.from_state,
        v.to_state, v.reason, pair.correlation_id
    FROM pair
    CROSS JOIN LATERAL (
        VALUES
            (1, 'bot.status', pair.bot_status, 'DEPLOYING', pair.reason),
            (2, 'slot.status', 'idle', 'deploying', %(assigned_reason)s::text)
    ) AS v (step, kind, from_state, to_state, reason)
    ORDER BY pair.assignment_id, v.step
)
SELECT
    pair.bot_id, pair.correlation_id, pair.slot_id, pair.slot_name, pair.container_id,
    CASE WHEN pair.is_hot THEN pair.run_id END AS standby_run_id,
    CASE WHEN pair.is_hot THEN pair.poll_owner END AS poll_owner,
    %(pool_name)s::text AS pool_name
FROM pair
-- A bot that takes a standby joins without passing the start gate: its permit is spent here.
WHERE CASE
    WHEN pair.n = 1 AND (SELECT w.egress FROM wanted w) IS NOT NULL
    THEN botpool_spend_permits(
        (SELECT w.egress FROM wanted w), (SELECT count(*) FROM pair p WHERE p.is_hot),
        (SELECT max(p.assignment_id) FROM pair p WHERE p.is_hot), %(probe_reason)s)
    ELSE true
END
