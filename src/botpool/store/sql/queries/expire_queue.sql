-- Bots whose time in the queue is over have failed. Rows that somebody is about to serve are left.
WITH expired AS MATERIALIZED (
    SELECT q.bot_id
    FROM bot_pool_queue q
    WHERE q.timeout_at <= botpool_now()
    ORDER BY q.timeout_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), unqueued AS (
    -- By their bots, also where it is planned while nobody waits.
    DELETE FROM bot_pool_queue q
    USING expired
    WHERE q.bot_id = expired.bot_id AND q.bot_id = ANY (ARRAY(SELECT e.bot_id FROM expired e))
), bot AS (
    UPDATE bots b
    SET status = 'FAILED',
        failure_code = 'queue_timeout',
        failure_reason = 'No slot became free before the queue timeout.',
        ended_at = botpool_now()
    FROM expired
    WHERE b.id = expired.bot_id
    RETURNING b.id, b.platform, b.correlation_id
), written AS (
    INSERT INTO history (kind, bot_id, from_state, to_state, reason, correlation_id)
    SELECT 'bot.status', bot.id, 'QUEUED', 'FAILED', 'queue timeout', bot.correlation_id
    FROM bot
)
SELECT bot.id AS bot_id, bot.platform, bot.correlation_id FROM bot
