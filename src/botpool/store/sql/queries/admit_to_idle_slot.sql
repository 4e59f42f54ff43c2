-- Admit a bot to the longest-unused idle slot of its pool, if nobody waits there.
-- The common case: one statement, one round trip. No row: nothing was done.
WITH slot AS MATERIALIZED (
    SELECT s.id, s.slot_name, s.container_id
    FROM bot_pool_slots s
    JOIN pools p ON p.platform = s.platform
    WHERE s.platform = %(platform)s
      AND s.status = 'idle'
      AND NOT s.cordoned
      AND s.backend = p.backend
      AND p.drained_at IS NULL
      AND NOT EXISTS (SELECT FROM bot_pool_queue q WHERE q.platform = %(platform)s)
    ORDER BY s.last_used_at NULLS FIRST, s.number
    LIMIT 1
    FOR UPDATE OF s SKIP LOCKED
), ids AS MATERIALIZED (
    SELECT
        slot.id AS slot_id,
        slot.slot_name,
        slot.container_id,
        nextval('bots_id_seq') AS bot_id,
        nextval('assignments_id_seq') AS assignment_id
    FROM slot
), claimed_key AS (
    INSERT INTO idempotency_keys AS k (api_key_id, key, body_hash, bot_id, created_at)
    SELECT %(api_key_id)s, %(idempotency_key)s, %(body_hash)s, ids.bot_id, botpool_now()
    FROM ids
    WHERE %(idempotency_key)s::text IS NOT NULL
    ON CONFLICT (api_key_id, key) DO UPDATE
    SET body_hash = EXCLUDED.body_hash, bot_id = EXCLUDED.bot_id, created_at = EXCLUDED.created_at
    WHERE k.created_at < botpool_now() - make_interval(days => %(idempotency_days)s)
    RETURNING k.bot_id
), admitted AS MATERIALIZED (
    SELECT ids.*
    FROM ids
    WHERE %(idempotency_key)s::text IS NULL OR EXISTS (SELECT FROM claimed_key)
), bot AS (
    INSERT INTO bots (
        id, platform, status, meeting_url, bot_display_name, bot_data, priority, queue_timeout_ms,
        correlation_id, attempts, assignment_id, slot_name, container_id, created_at, assigned_at)
    SELECT
        admitted.bot_id, %(platform)s, 'DEPLOYING', %(meeting_url)s, %(bot_display_name)s,
        %(bot_data)s, %(priority)s, %(queue_timeout_ms)s, %(correlation_id)s, 1,
        admitted.assignment_id, admitted.slot_name, admitted.container_id, botpool_now(),
        botpool_now()
    FROM admitted
    RETURNING
        id, correlation_id, platform, meeting_url, bot_display_name, status, priority, slot_name,
        container_id, attempts, failure_reason, failure_code, created_at, queued_at, assigned_at,
        started_at, NULL::timestamptz AS last_heartbeat_at, ended_at
), assignment AS (
    INSERT INTO assignments (
        id, bot_id, slot_id, slot_name, platform, attempt, warm, container_id, assigned_at)
    SELECT
        admitted.assignment_id, admitted.bot_id, admitted.slot_id, admitted.slot_name,
        %(platform)s, 1, admitted.container_id IS NOT NULL, admitted.container_id, botpool_now()
    FROM admitted
), taken AS (
    UPDATE bot_pool_slots s
    SET status = 'deploying',
        phase = 'creating',
        phase_at = botpool_now(),
        assigned_bot_id = admitted.bot_id,
        assignment_id = admitted.assignment_id,
        last_assigned_at = botpool_now(),
        last_used_at = botpool_now(),
        error_message = NULL,
        next_step_at = botpool_now(),
        step_tries = 0,
        version = s.version + 1
    FROM admitted
    WHERE s.id = admitted.slot_id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id)
    SELECT
        v.kind, a.bot_id, v.slot_id, v.assignment_id, v.slot_name, v.from_state, v.to_state,
        v.reason, %(correlation_id)s
    FROM admitted a
    CROSS JOIN LATERAL (
        VALUES
            ('bot.status', NULL::bigint, NULL::bigint, NULL::text, NULL::text, 'PENDING', 'accepted'),
            ('bot.status', a.slot_id, a.assignment_id, a.slot_name, 'PENDING', 'DEPLOYING',
             'an idle slot was free'),
            ('slot.status', a.slot_id, a.assignment_id, a.slot_name, 'idle', 'deploying',
             'assigned')
    ) AS v (kind, slot_id, assignment_id, slot_name, from_state, to_state, reason)
)
SELECT bot.*, admitted.slot_id FROM bot JOIN admitted ON admitted.bot_id = bot.id
