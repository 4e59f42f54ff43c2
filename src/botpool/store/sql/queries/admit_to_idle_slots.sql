-- Admit bots to the assignable slots of their pool with the lowest claim_rank, in their order, if none of
-- their tenant's bots waits there.
-- The common case: one statement, one round trip. A request without a row was not admitted. The
-- conditions hold for each tenant of the batch: a tenant at its quota pushes no other onto the queue.
-- The head of the queue, read from its index, shows whether a bot waits: an EXISTS may be planned
-- to scan the queue of other pools.
WITH request AS MATERIALIZED (
    SELECT
        w.n, row_number() OVER () AS nth, w.meeting_url, w.bot_display_name, w.bot_data, w.priority,
        w.queue_timeout_ms, w.correlation_id, w.traceparent, w.tenant_id, w.api_key_id,
        w.idempotency_key, w.body_hash
    FROM unnest(
        %(meeting_urls)s::text[], %(bot_display_names)s::text[], %(bot_data)s::json[],
        %(priorities)s::integer[], %(queue_timeouts_ms)s::integer[], %(correlation_ids)s::text[],
        %(traceparents)s::text[], %(tenant_ids)s::bigint[], %(api_key_ids)s::bigint[], %(idempotency_keys)s::text[],
        %(body_hashes)s::bytea[]
    ) WITH ORDINALITY AS w (
        meeting_url, bot_display_name, bot_data, priority, queue_timeout_ms, correlation_id,
        traceparent, tenant_id, api_key_id, idempotency_key, body_hash, n)
    -- A tenant with a quota of live bots passes through the queue: the matcher counts.
    WHERE w.tenant_id <> ALL (ARRAY(
        SELECT t.id FROM tenants t
        WHERE t.id = ANY (%(tenant_ids)s::bigint[]) AND t.max_live IS NOT NULL))
      AND CASE
          WHEN (
              SELECT q.id FROM bot_pool_queue q WHERE q.pool_name = %(pool_name)s
              ORDER BY q.priority, q.arrival LIMIT 1) IS NULL
          THEN true
          -- Others may wait for their quota; bots of the own tenant must not wait.
          ELSE (
              SELECT t.tenant_id FROM tenant_turns t
              WHERE t.pool_name = %(pool_name)s AND t.waits
              ORDER BY t.share, t.pass, t.tenant_id LIMIT 1) IS NULL
              AND (
                  SELECT q.id FROM bot_pool_queue q
                  WHERE q.pool_name = %(pool_name)s AND q.tenant_id = w.tenant_id
                  ORDER BY q.priority, q.arrival LIMIT 1) IS NULL
      END
), ids AS MATERIALIZED (
    SELECT
        f.slot_id, f.slot_name, f.container_id, f.is_hot, f.run_id, f.poll_owner, f.handover_timeout_s,
        row_number() OVER () AS nth,
        nextval('bots_id_seq') AS bot_id, nextval('assignments_id_seq') AS assignment_id
    FROM (
        SELECT
            s.id AS slot_id, s.slot_name, s.container_id, s.run_id, s.poll_owner, p.handover_timeout_s,
            -- The container of the standby runs, or its start may have been sent.
            s.standby IS NOT NULL AND s.start_allowed_at IS NOT NULL AS is_hot
        FROM bot_pool_slots s
        JOIN pools p ON p.pool_name = s.pool_name
        WHERE s.pool_name = %(pool_name)s
          AND s.claim_rank IS NOT NULL
          AND s.backend = p.backend
          AND p.drained_at IS NULL
          -- Bots of a paced pool pass through the queue, where the matcher holds them back.
          AND p.egress IS NULL
        ORDER BY s.claim_rank, s.last_used_at NULLS FIRST, s.number
        LIMIT (SELECT count(*) FROM request)
        FOR UPDATE OF s SKIP LOCKED
    ) AS f
), keyed AS (
    INSERT INTO idempotency_keys AS k (api_key_id, key, body_hash, bot_id, created_at)
    SELECT w.api_key_id, w.idempotency_key, w.body_hash, ids.bot_id, botpool_now()
    FROM request w
    JOIN ids ON ids.nth = w.nth
    WHERE w.idempotency_key IS NOT NULL
    ON CONFLICT (api_key_id, key) DO UPDATE
    SET body_hash = EXCLUDED.body_hash, bot_id = EXCLUDED.bot_id, created_at = EXCLUDED.created_at
    WHERE k.created_at < botpool_now() - make_interval(days => %(idempotency_days)s)
    RETURNING k.bot_id
), admitted AS MATERIALIZED (
    SELECT
        w.n, w.meeting_url, w.bot_display_name, w.bot_data, w.priority, w.queue_timeout_ms,
        w.correlation_id, w.traceparent, w.tenant_id, w.api_key_id, ids.slot_id, ids.slot_name, ids.container_id,
        ids.bot_id, ids.assignment_id,
        ids.is_hot, ids.run_id, ids.poll_owner, ids.handover_timeout_s
    FROM request w
    JOIN ids ON ids.nth = w.nth
    WHERE w.idempotency_key IS NULL
       OR ids.bot_id IN (SELECT c.bot_id FROM keyed c)
), bot AS (
    INSERT INTO bots (
        id, tenant_id, created_by, pool_name, status, meeting_url, bot_display_name, bot_data,
        priority, queue_timeout_ms, correlation_id, traceparent, attempts, assignment_id, slot_name,
        container_id, created_at, assigned_at)
    SELECT
        a.bot_id, a.tenant_id, a.api_key_id, %(pool_name)s, 'DEPLOYING', a.meeting_url,
        a.bot_display_name, a.bot_data, a.priority, a.queue_timeout_ms, a.correlation_id,
        a.traceparent, 1,
        a.assignment_id, a.slot_name, a.container_id, botpool_now(), botpool_now()
    FROM admitted a
), assignment AS (
    INSERT INTO assignments (
        id, bot_id, slot_id, slot_name, pool_name, attempt, warm, run_id, container_id, assigned_at)
    SELECT
        a.assignment_id, a.bot_id, a.slot_id, a.slot_name, %(pool_name)s, 1,
        a.container_id IS NOT NULL, CASE WHEN a.is_hot THEN a.run_id END, a.container_id, botpool_now()
    FROM admitted a
), taken AS (
    UPDATE bot_pool_slots s
    SET status = 'deploying',
        phase = CASE WHEN a.is_hot THEN 'handing_over' ELSE 'creating' END,
        phase_at = botpool_now(),
        assigned_bot_id = a.bot_id,
        assignment_id = a.assignment_id,
        run_id = CASE WHEN a.is_hot THEN s.run_id ELSE a.assignment_id END,
        standby = CASE WHEN a.is_hot THEN s.standby END,
        leads_image = CASE WHEN a.is_hot THEN s.leads_image END,
        tenant_id = a.tenant_id,
        last_assigned_at = botpool_now(),
        last_used_at = botpool_now(),
        error_message = NULL,
        error_at = NULL,
        -- The hand-over has its time from here, or from the standby's first poll.
        next_step_at = CASE
            WHEN a.is_hot AND s.run_started_at IS NOT NULL
                THEN botpool_now() + make_interval(secs => a.handover_timeout_s)
            WHEN a.is_hot AND s.start_issued_at IS NOT NULL THEN s.next_step_at
            ELSE botpool_now() END,
        step_attempts = 0,
        version = s.version + 1
    FROM admitted a
    WHERE s.id = a.slot_id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id)
    SELECT
        v.kind, a.bot_id, v.slot_id, v.assignment_id, v.slot_name, v.from_state, v.to_state,
        v.reason, a.correlation_id
    FROM admitted a
    CROSS JOIN LATERAL (
        VALUES
            (1, 'bot.status', NULL, NULL, NULL, NULL, 'PENDING',
             %(accepted_reason)s::text),
            (2, 'bot.status', a.slot_id, a.assignment_id, a.slot_name, 'PENDING', 'DEPLOYING',
             %(claimed_reason)s::text),
            (3, 'slot.status', a.slot_id, a.assignment_id, a.slot_name, 'idle', 'deploying',
             %(assigned_reason)s::text)
    ) AS v (step, kind, slot_id, assignment_id, slot_name, from_state, to_state, reason)
    ORDER BY a.n, v.step
)
SELECT
    a.n::integer AS n, a.bot_id, a.correlation_id, 'DEPLOYING' AS status, a.assignment_id, a.slot_id,
    a.slot_name,
    a.container_id, CASE WHEN a.is_hot THEN a.run_id END AS standby_run_id,
    CASE WHEN a.is_hot THEN a.poll_owner END AS poll_owner, 1 AS attempts, botpool_now() AS created_at, NULL::timestamptz AS queued_at,
    botpool_now() AS assigned_at
FROM admitted a
