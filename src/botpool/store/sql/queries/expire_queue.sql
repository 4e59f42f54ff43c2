-- Bots whose time in the queue is over have failed. Rows that somebody is about to serve are left.
WITH expired AS MATERIALIZED (
    SELECT q.bot_id
    FROM bot_pool_queue q
    WHERE q.timeout_at <= botpool_now()
    ORDER BY q.timeout_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), unqueued AS (
    -- Not a join: planned while nobody waits, it would read all of the queue.
    DELETE FROM bot_pool_queue q WHERE q.bot_id = ANY (ARRAY(SELECT expired.bot_id FROM expired))
), bot AS (
    UPDATE bots b
    SET status = 'FAILED',
        failure_code = 'queue_timeout',
        failure_reason = 'No slot became free before the queue timeout.',
        ended_at = botpool_now()
    WHERE b.id = ANY (ARRAY(SELECT expired.bot_id FROM expired))
    RETURNING b.id, b.pool_name, b.correlation_id
), written AS (
    INSERT INTO history (kind, bot_id, from_state, to_state, reason, correlation_id)
    SELECT 'bot.status', bot.id, 'QUEUED', 'FAILED', 'queue timeout', bot.correlation_id
    FROM bot
)
SELECT bot.id AS bot_id, bot.pool_name, bot.correlation_id FROM bot
