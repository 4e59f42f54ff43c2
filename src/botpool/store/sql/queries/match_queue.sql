-- Assign the heads of a pool's queue to its idle slots, in order. The caller holds the pool's lock.
-- Only this statement takes bots off the queue for a slot. If one tenant without a quota waits, its
-- bots follow in order. Else botpool_bots_in_turn chooses them, and botpool_count_served counts them:
-- functions, so that an installation with one tenant does not pay for their plans.
-- `reserved` serves only the due bots with a reservation, the earliest join first, whatever their
-- tenant's turn and quota.
-- The statement locks rows in the order queue, quota, slot, bot. It skips quotas and slots that other
-- transactions hold, so it waits for none of them. A release has already locked its own slot and bot;
-- that cannot deadlock, because a transaction that holds a queue row only locks idle slots.
WITH wanted AS MATERIALIZED (
    -- Reads the idle slots only if a bot waits.
    SELECT
        least(
            (
                SELECT count(*)
                FROM bot_pool_slots s
                WHERE s.pool_name = %(pool_name)s AND s.claim_rank IS NOT NULL),
            -- In a paced pool, no more bots than could start. Null is no limit.
            CASE WHEN head.egress IS NOT NULL THEN botpool_assignable_bots(head.egress) END) AS slots,
        head.tenant_id <> (
            SELECT q.tenant_id FROM bot_pool_queue q WHERE q.pool_name = %(pool_name)s
            ORDER BY q.tenant_id DESC LIMIT 1)
        OR (
            SELECT t.tenant_id FROM tenant_turns t WHERE t.pool_name = %(pool_name)s AND t.waits
            ORDER BY t.share, t.pass, t.tenant_id LIMIT 1) IS NOT NULL
        OR (SELECT t.max_live FROM tenants t WHERE t.id = head.tenant_id) IS NOT NULL AS in_turn
    FROM (
        SELECT
            p.egress,
            (
                SELECT q.tenant_id FROM bot_pool_queue q WHERE q.pool_name = %(pool_name)s
                ORDER BY q.tenant_id LIMIT 1) AS tenant_id
        FROM pools p
        WHERE p.pool_name = %(pool_name)s AND p.drained_at IS NULL
        OFFSET 0
    ) AS head
    WHERE head.tenant_id IS NOT NULL
), heads AS MATERIALIZED (
    SELECT q.bot_id, row_number() OVER (ORDER BY q.priority, q.arrival) AS n
    FROM (
        SELECT w.bot_id, w.priority, w.arrival
        FROM bot_pool_queue w
        WHERE w.pool_name = %(pool_name)s AND w.timeout_at > botpool_now()
        ORDER BY w.priority, w.arrival
        LIMIT (
            SELECT coalesce(max(CASE WHEN NOT n.in_turn AND NOT %(reserved)s THEN n.slots END), 0)
            FROM wanted n)
        FOR UPDATE
    ) AS q
    UNION ALL
    SELECT r.bot_id, row_number() OVER (ORDER BY r.reserved_join_at, r.arrival) AS n
    FROM (
        SELECT w.bot_id, w.reserved_join_at, w.arrival
        FROM bot_pool_queue w
        WHERE w.pool_name = %(pool_name)s
          AND w.reserved_join_at IS NOT NULL
          AND w.timeout_at > botpool_now()
        ORDER BY w.reserved_join_at, w.arrival
        LIMIT (SELECT coalesce(max(CASE WHEN %(reserved)s THEN n.slots END), 0) FROM wanted n)
        FOR UPDATE
    ) AS r
    UNION ALL
    SELECT t.bot_id, t.n
    FROM wanted n
    CROSS JOIN LATERAL botpool_bots_in_turn(%(pool_name)s, n.slots) AS t
    WHERE n.in_turn AND NOT %(reserved)s
), free AS MATERIALIZED (
    SELECT
        f.id, f.slot_name, f.container_id, f.last_used_at, f.run_id, f.poll_owner, f.is_hot,
        (SELECT p.handover_timeout_s FROM pools p WHERE p.pool_name = %(pool_name)s) AS handover_timeout_s,
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
-- Once for all of them.
WHERE CASE
    WHEN pair.n = 1 AND (SELECT w.in_turn FROM wanted w)
    THEN botpool_count_served(
        %(pool_name)s, ARRAY(SELECT p.bot_id FROM pair p), ARRAY(SELECT p.tenant_id FROM pair p))
    ELSE true
END
