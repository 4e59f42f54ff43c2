-- Assign the heads of a pool's queue to its idle slots, in order. The caller holds the pool's lock.
-- Only this statement takes bots off the queue for a slot. If tenants take turns, the next bot is the
-- head of the tenant with the smallest (share, pass) that is below its quota; for several slots, the
-- nth bot of a tenant counts with the slots of the n - 1 before it. Without turns, one tenant waits.
-- The statement locks rows in the order queue, quota, slot, bot. It skips quotas and slots that other
-- transactions hold, so it waits for none of them. A release has already locked its own slot and bot;
-- that cannot deadlock, because a transaction that holds a queue row only locks idle slots.
WITH head AS MATERIALIZED (
    SELECT q.tenant_id
    FROM bot_pool_queue q
    WHERE q.pool_name = %(pool_name)s
      AND EXISTS (SELECT FROM pools p WHERE p.pool_name = %(pool_name)s AND p.drained_at IS NULL)
    ORDER BY q.priority, q.bot_id
    LIMIT 1
), wanted AS MATERIALIZED (
    -- Reads the idle slots only if a bot waits.
    SELECT
        least(
            (
                SELECT count(*)
                FROM bot_pool_slots s
                WHERE s.pool_name = %(pool_name)s AND s.claim_rank IS NOT NULL),
            -- In a paced pool, no more bots than could start. Null is no limit.
            (
                SELECT CASE WHEN p.egress IS NOT NULL THEN botpool_assignable_bots(p.egress) END
                FROM pools p WHERE p.pool_name = %(pool_name)s)) AS slots,
        (
            SELECT t.tenant_id FROM tenant_turns t WHERE t.pool_name = %(pool_name)s AND t.waits
            ORDER BY t.share, t.pass, t.tenant_id LIMIT 1) IS NOT NULL AS by_turns,
        -- Null without a quota. A quota that was never counted leaves no room.
        (
            SELECT greatest(t.max_live - coalesce(t.live, t.max_live), 0)
            FROM tenants t WHERE t.id = head.tenant_id AND t.max_live IS NOT NULL) AS room
    FROM head
), only_tenant AS MATERIALIZED (
    SELECT w.bot_id, w.tenant_id, w.priority
    FROM bot_pool_queue w
    WHERE w.pool_name = %(pool_name)s AND w.timeout_at > botpool_now()
    ORDER BY w.priority, w.bot_id
    LIMIT (
        SELECT coalesce(max(CASE WHEN NOT n.by_turns THEN least(n.slots, n.room) END), 0)
        FROM wanted n)
    FOR UPDATE
), turn AS MATERIALIZED (
    SELECT
        t.tenant_id, t.in_use, t.weight, t.pass,
        (
            SELECT greatest(n.max_live - coalesce(n.live, n.max_live), 0)
            FROM tenants n WHERE n.id = t.tenant_id AND n.max_live IS NOT NULL) AS room
    FROM tenant_turns t
    WHERE t.pool_name = %(pool_name)s
      AND t.waits
      -- Passes over turns without a bot or at the quota, which the next refresh ends.
      AND coalesce((
              SELECT coalesce(n.live < n.max_live, false)
              FROM tenants n WHERE n.id = t.tenant_id AND n.max_live IS NOT NULL), true)
      AND (
          SELECT w.bot_id FROM bot_pool_queue w
          WHERE w.pool_name = %(pool_name)s
            AND w.tenant_id = t.tenant_id
            AND (w.timeout_at > botpool_now()) IS TRUE
          ORDER BY w.priority, w.bot_id LIMIT 1) IS NOT NULL
    ORDER BY t.share, t.pass, t.tenant_id
    LIMIT (SELECT coalesce(max(CASE WHEN n.by_turns THEN n.slots END), 0) FROM wanted n)
), candidate AS MATERIALIZED (
    SELECT
        h.bot_id, t.tenant_id, (t.in_use + h.nth - 1)::float8 / t.weight AS share,
        t.pass + (h.nth - 1)::float8 / t.weight AS pass, h.nth
    FROM turn t
    CROSS JOIN LATERAL (
        SELECT q.bot_id, row_number() OVER (ORDER BY q.priority, q.bot_id) AS nth
        FROM (
            SELECT w.bot_id, w.priority
            FROM bot_pool_queue w
            WHERE w.pool_name = %(pool_name)s
              AND w.tenant_id = t.tenant_id
              AND (w.timeout_at > botpool_now()) IS TRUE
            ORDER BY w.priority, w.bot_id
            LIMIT least((SELECT max(n.slots) FROM wanted n), t.room)
        ) AS q
    ) AS h
    ORDER BY share, pass, t.tenant_id, h.nth
    LIMIT (SELECT max(n.slots) FROM wanted n)
), in_turn AS MATERIALIZED (
    SELECT c.bot_id, c.tenant_id, c.share, c.pass, c.nth
    FROM candidate c
    JOIN bot_pool_queue w ON w.bot_id = c.bot_id
    WHERE w.bot_id = ANY (ARRAY(SELECT d.bot_id FROM candidate d))
    ORDER BY w.bot_id
    FOR UPDATE OF w
), heads AS MATERIALIZED (
    SELECT o.bot_id, o.tenant_id, row_number() OVER (ORDER BY o.priority, o.bot_id) AS n
    FROM only_tenant o
    UNION ALL
    SELECT i.bot_id, i.tenant_id, row_number() OVER (ORDER BY i.share, i.pass, i.tenant_id, i.nth) AS n
    FROM in_turn i
), quota AS MATERIALIZED (
    -- The lock returns the current count, also in an older snapshot.
    SELECT t.id, t.max_live - t.live AS room
    FROM tenants t
    WHERE t.id = ANY (ARRAY(SELECT h.tenant_id FROM heads h)) AND t.max_live IS NOT NULL
    ORDER BY t.id
    FOR NO KEY UPDATE SKIP LOCKED
), allowed AS MATERIALIZED (
    SELECT h.bot_id, row_number() OVER (ORDER BY h.n) AS n
    FROM (
        SELECT
            d.bot_id, d.tenant_id, d.n,
            row_number() OVER (PARTITION BY d.tenant_id ORDER BY d.n) AS nth
        FROM heads d
    ) AS h
    WHERE (SELECT t.max_live FROM tenants t WHERE t.id = h.tenant_id) IS NULL
       OR h.nth <= (SELECT q.room FROM quota q WHERE q.id = h.tenant_id)
), free AS MATERIALIZED (
    SELECT
        f.id, f.slot_name, f.container_id, f.last_used_at,
        row_number() OVER (ORDER BY f.claim_rank, f.last_used_at NULLS FIRST, f.number) AS n
    FROM (
        SELECT s.id, s.slot_name, s.container_id, s.claim_rank, s.last_used_at, s.number
        FROM bot_pool_slots s
        WHERE s.pool_name = %(pool_name)s AND s.claim_rank IS NOT NULL
        ORDER BY s.claim_rank, s.last_used_at NULLS FIRST, s.number
        LIMIT (SELECT count(*) FROM allowed)
        FOR UPDATE SKIP LOCKED
    ) AS f
), pair AS MATERIALIZED (
    SELECT
        allowed.bot_id, b.tenant_id, b.status AS bot_status, b.correlation_id, b.attempts + 1 AS attempt,
        free.id AS slot_id, free.slot_name, free.container_id,
        CASE WHEN free.last_used_at IS NULL THEN %(new_slot_reason)s::text ELSE %(freed_slot_reason)s::text END
            AS reason,
        nextval('assignments_id_seq') AS assignment_id
    FROM allowed
    JOIN free ON free.n = allowed.n
    JOIN bots b ON b.id = allowed.bot_id
    -- The array makes the plan use the index on the id, also with a large estimate.
    WHERE b.id = ANY (ARRAY(SELECT h.bot_id FROM allowed h))
), unqueued AS (
    -- No join: a plan from a time with an empty queue would scan the whole queue.
    DELETE FROM bot_pool_queue q WHERE q.bot_id = ANY (ARRAY(SELECT pair.bot_id FROM pair))
), served AS MATERIALIZED (
    SELECT pair.tenant_id, count(*)::integer AS bots FROM pair GROUP BY pair.tenant_id
), counted AS (
    UPDATE tenants t
    SET live = t.live + served.bots
    FROM served
    WHERE t.id = served.tenant_id AND t.max_live IS NOT NULL
), turned AS (
    UPDATE tenant_turns t
    SET in_use = t.in_use + served.bots,
        pass = t.pass + served.bots::float8 / t.weight,
        waits = (
            SELECT w.bot_id FROM bot_pool_queue w
            WHERE w.pool_name = t.pool_name
              AND w.tenant_id = t.tenant_id
              AND w.bot_id <> ALL (ARRAY(SELECT pair.bot_id FROM pair))
            ORDER BY w.priority, w.bot_id LIMIT 1) IS NOT NULL
    FROM served
    WHERE t.pool_name = %(pool_name)s AND t.tenant_id = served.tenant_id AND t.waits
), taken AS (
    UPDATE bot_pool_slots s
    SET status = 'deploying',
        phase = 'creating',
        phase_at = botpool_now(),
        assigned_bot_id = pair.bot_id,
        assignment_id = pair.assignment_id,
        run_id = pair.assignment_id,
        tenant_id = pair.tenant_id,
        last_assigned_at = botpool_now(),
        last_used_at = botpool_now(),
        error_message = NULL,
        error_at = NULL,
        next_step_at = botpool_now(),
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
        id, bot_id, slot_id, slot_name, pool_name, attempt, warm, container_id, assigned_at)
    SELECT
        pair.assignment_id, pair.bot_id, pair.slot_id, pair.slot_name, %(pool_name)s, pair.attempt,
        pair.container_id IS NOT NULL, pair.container_id, botpool_now()
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
    %(pool_name)s::text AS pool_name
FROM pair
