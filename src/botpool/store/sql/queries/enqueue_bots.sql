-- Put new bots into their pool's queue, still PENDING. The caller holds the pool's lock and settles
-- the bots in the same transaction. Ids are drawn under the lock, so they follow the order of
-- arrival. A request without a row was not queued: its idempotency key is taken, or the pool is
-- drained or unknown. A row without a bot: the queue is full. The count under the lock is exact: only
-- a holder of the lock adds to the queue. Without a match that follows, bots are queued only if a
-- match would find nothing to do: no slot is idle, and the pool cannot grow.
-- Locks the rows of tenants with a quota, also against other pools: later statements with newer
-- snapshots count their queues (settle_new_bots) and their live bots (match_queue). A match would
-- pass over a count that another transaction holds.
WITH waiting_before AS MATERIALIZED (
    SELECT count(*) AS bots
    FROM (
        SELECT FROM bot_pool_queue q WHERE q.pool_name = %(pool_name)s
        LIMIT %(max_length)s::integer
    ) AS counted
), request AS MATERIALIZED (
    SELECT
        w.n, w.meeting_url, w.bot_display_name, w.bot_data, w.priority, w.queue_timeout_ms,
        w.correlation_id, w.traceparent, w.tenant_id, w.api_key_id, w.idempotency_key, w.body_hash,
        CASE WHEN w.n + b.bots <= %(max_length)s::integer THEN nextval('bots_id_seq') END AS bot_id
    FROM pools p
    CROSS JOIN waiting_before b
    CROSS JOIN unnest(
        %(meeting_urls)s::text[], %(bot_display_names)s::text[], %(bot_data)s::json[],
        %(priorities)s::integer[], %(queue_timeouts_ms)s::integer[], %(correlation_ids)s::text[],
        %(traceparents)s::text[], %(tenant_ids)s::bigint[], %(api_key_ids)s::bigint[], %(idempotency_keys)s::text[],
        %(body_hashes)s::bytea[]
    ) WITH ORDINALITY AS w (
        meeting_url, bot_display_name, bot_data, priority, queue_timeout_ms, correlation_id,
        traceparent, tenant_id, api_key_id, idempotency_key, body_hash, n)
    WHERE p.pool_name = %(pool_name)s
      AND p.drained_at IS NULL
      AND (
          %(match_follows)s
          OR (
              (
                  SELECT s.id FROM bot_pool_slots s
                  WHERE s.pool_name = %(pool_name)s AND s.claim_rank IS NOT NULL
                  ORDER BY s.claim_rank, s.last_used_at NULLS FIRST, s.number LIMIT 1) IS NULL
              AND p.max_size <= (
                  SELECT count(*) FROM slot_identities i WHERE i.pool_name = %(pool_name)s)))
), claimed_key AS (
    INSERT INTO idempotency_keys AS k (api_key_id, key, body_hash, bot_id, created_at)
    SELECT w.api_key_id, w.idempotency_key, w.body_hash, w.bot_id, botpool_now()
    FROM request w
    WHERE w.idempotency_key IS NOT NULL AND w.bot_id IS NOT NULL
    ON CONFLICT (api_key_id, key) DO UPDATE
    SET body_hash = EXCLUDED.body_hash, bot_id = EXCLUDED.bot_id, created_at = EXCLUDED.created_at
    WHERE k.created_at < botpool_now() - make_interval(days => %(idempotency_days)s)
    RETURNING k.bot_id
), admitted AS MATERIALIZED (
    SELECT w.n, w.bot_id, w.tenant_id, w.priority, w.queue_timeout_ms, w.correlation_id
    FROM request w
    WHERE w.bot_id IS NOT NULL
      AND (w.idempotency_key IS NULL
           OR EXISTS (SELECT FROM claimed_key c WHERE c.bot_id = w.bot_id))
), bot AS (
    INSERT INTO bots (
        id, tenant_id, created_by, pool_name, status, meeting_url, bot_display_name, bot_data,
        priority, queue_timeout_ms, correlation_id, traceparent, created_at)
    SELECT
        w.bot_id, w.tenant_id, w.api_key_id, %(pool_name)s, 'PENDING', w.meeting_url,
        w.bot_display_name, w.bot_data, w.priority, w.queue_timeout_ms, w.correlation_id,
        w.traceparent, botpool_now()
    FROM request w
    JOIN admitted a ON a.n = w.n
), waiting AS (
    INSERT INTO bot_pool_queue (bot_id, pool_name, tenant_id, priority, queued_at, timeout_at)
    SELECT
        a.bot_id, %(pool_name)s, a.tenant_id, a.priority, botpool_now(),
        -- A bot that does not queue is matched or rolled back at once; any future time serves.
        botpool_now() + make_interval(secs => greatest(a.queue_timeout_ms, 1000) / 1000.0)
    FROM admitted a
), written AS (
    INSERT INTO history (kind, bot_id, to_state, reason, correlation_id)
    SELECT 'bot.status', a.bot_id, 'PENDING', %(accepted_reason)s, a.correlation_id
    FROM admitted a
    ORDER BY a.n
), quota AS MATERIALIZED (
    SELECT t.id
    FROM tenants t
    WHERE t.id = ANY (%(tenant_ids)s::bigint[])
      AND (t.max_queued IS NOT NULL OR t.max_live IS NOT NULL)
    ORDER BY t.id
    FOR NO KEY UPDATE
), locked AS MATERIALIZED (
    SELECT count(*) AS tenants FROM quota
), new_bots AS MATERIALIZED (
    SELECT set_config('botpool.new_bot_ids', array_agg(a.bot_id)::text, true) AS bot_ids
    FROM admitted a
)
SELECT
    a.n::integer AS n, a.bot_id,
    -- Whether the bot's tenant begins to wait beside others: it needs a turn.
    CASE
        WHEN (SELECT max(o.tenant_id) FROM admitted o) = (SELECT min(o.tenant_id) FROM admitted o)
            AND coalesce((
                SELECT q.tenant_id FROM bot_pool_queue q WHERE q.pool_name = %(pool_name)s
                ORDER BY q.tenant_id LIMIT 1), a.tenant_id) = a.tenant_id
            AND coalesce((
                SELECT q.tenant_id FROM bot_pool_queue q WHERE q.pool_name = %(pool_name)s
                ORDER BY q.tenant_id DESC LIMIT 1), a.tenant_id) = a.tenant_id
        THEN false
        ELSE coalesce((
              SELECT coalesce(t.live < t.max_live, false)
              FROM tenants t WHERE t.id = a.tenant_id AND t.max_live IS NOT NULL), true)
            AND NOT EXISTS (
                SELECT FROM tenant_turns t
                WHERE t.pool_name = %(pool_name)s AND t.tenant_id = a.tenant_id AND t.waits)
    END AS begins_turn
FROM admitted a
CROSS JOIN new_bots
CROSS JOIN locked
UNION ALL
SELECT w.n::integer, NULL, false FROM request w WHERE w.bot_id IS NULL
