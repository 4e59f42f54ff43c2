-- Put a new bot into its pool's queue, still PENDING; the caller holds the pool's lock and settles
-- it in the same transaction. The id is drawn under the lock, so ids keep the order of arrival.
-- No row: the idempotency key is taken, or the pool is drained or unknown.
WITH ids AS MATERIALIZED (
    SELECT nextval('bots_id_seq') AS bot_id
    FROM pools p
    WHERE p.platform = %(platform)s AND p.drained_at IS NULL
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
    SELECT ids.bot_id
    FROM ids
    WHERE %(idempotency_key)s::text IS NULL OR EXISTS (SELECT FROM claimed_key)
), bot AS (
    INSERT INTO bots (
        id, platform, status, meeting_url, bot_display_name, bot_data, priority, queue_timeout_ms,
        correlation_id, created_at)
    SELECT
        admitted.bot_id, %(platform)s, 'PENDING', %(meeting_url)s, %(bot_display_name)s,
        %(bot_data)s, %(priority)s, %(queue_timeout_ms)s, %(correlation_id)s, botpool_now()
    FROM admitted
), waiting AS (
    INSERT INTO bot_pool_queue (bot_id, platform, priority, queued_at, timeout_at)
    SELECT
        admitted.bot_id, %(platform)s, %(priority)s, botpool_now(),
        -- A bot that will not queue is matched or rolled back at once: any future moment will do.
        botpool_now() + make_interval(secs => greatest(%(queue_timeout_ms)s, 1000) / 1000.0)
    FROM admitted
), written AS (
    INSERT INTO history (kind, bot_id, to_state, reason, correlation_id)
    SELECT 'bot.status', admitted.bot_id, 'PENDING', 'accepted', %(correlation_id)s
    FROM admitted
)
SELECT
    admitted.bot_id, set_config('botpool.newcomer', admitted.bot_id::text, true) AS noted
FROM admitted
