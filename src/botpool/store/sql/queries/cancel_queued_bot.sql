-- Cancel a bot that is in the queue: the queue row goes with the change of status.
WITH unqueued AS (
    DELETE FROM bot_pool_queue WHERE bot_id = %(bot_id)s RETURNING bot_id
), bot AS (
    UPDATE bots b
    SET status = 'CANCELLED', ended_at = botpool_now()
    FROM unqueued
    WHERE b.id = unqueued.bot_id
    RETURNING b.id, b.pool_name, b.correlation_id
), written AS (
    INSERT INTO history (kind, bot_id, from_state, to_state, reason, correlation_id)
    SELECT 'bot.status', bot.id, 'QUEUED', 'CANCELLED', %(reason)s, bot.correlation_id
    FROM bot
)
SELECT bot.id AS bot_id, bot.pool_name, bot.correlation_id FROM bot
