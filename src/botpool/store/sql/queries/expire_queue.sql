-- Fail the bots whose time in the queue is over. Rows that a match has locked are skipped.
WITH expired AS MATERIALIZED (
    SELECT q.bot_id
    FROM bot_pool_queue q
    WHERE q.timeout_at <= botpool_now()
    ORDER BY q.timeout_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), unqueued AS (
    -- No join: a plan from a time with an empty queue would scan the whole queue.
    DELETE FROM bot_pool_queue q WHERE q.bot_id = ANY (ARRAY(SELECT expired.bot_id FROM expired))
), bot AS (
    UPDATE bots b
    SET status = 'FAILED',
        failure_code = 'queue_timeout',
        failure_reason = %(failure_reason)s,
        ended_at = botpool_now()
    WHERE b.id = ANY (ARRAY(SELECT expired.bot_id FROM expired))
    RETURNING b.id, b.pool_name, b.correlation_id
), written AS (
    INSERT INTO history (kind, bot_id, from_state, to_state, reason, correlation_id)
    SELECT 'bot.status', bot.id, 'QUEUED', 'FAILED', %(reason)s, bot.correlation_id
    FROM bot
)
SELECT bot.id AS bot_id, bot.pool_name, bot.correlation_id FROM bot
