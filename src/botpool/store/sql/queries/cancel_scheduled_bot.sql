-- Cancel a scheduled bot that is not due yet; a trigger ends its booking.
WITH bot AS (
    UPDATE bots b
    SET status = 'CANCELLED', ended_at = botpool_now()
    WHERE b.id = %(bot_id)s AND (b.status = 'SCHEDULED') IS TRUE
    RETURNING b.id, b.pool_name, b.correlation_id
), written AS (
    INSERT INTO history (kind, bot_id, from_state, to_state, reason, correlation_id)
    SELECT 'bot.status', bot.id, 'SCHEDULED', 'CANCELLED', %(reason)s, bot.correlation_id
    FROM bot
)
SELECT bot.id AS bot_id, bot.pool_name, bot.correlation_id FROM bot
