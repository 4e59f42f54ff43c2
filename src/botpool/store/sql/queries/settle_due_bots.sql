-- Make the due bots that enqueue_due_bots wrote in this transaction QUEUED unless the match gave them
-- a slot. The caller holds the pool's lock, and a PENDING bot with a queue row exists only under it.
WITH bot AS (
    UPDATE bots b
    SET status = 'QUEUED', queued_at = q.queued_at
    FROM bot_pool_queue q
    WHERE q.pool_name = %(pool_name)s
      AND q.due_number IS NOT NULL
      AND b.id = q.bot_id
      AND (b.status = 'PENDING') IS TRUE
    RETURNING b.id, b.correlation_id
), written AS (
    INSERT INTO history (kind, bot_id, from_state, to_state, reason, correlation_id)
    SELECT 'bot.status', bot.id, 'PENDING', 'QUEUED', %(reason)s, bot.correlation_id
    FROM bot
    ORDER BY bot.id
)
SELECT bot.id AS bot_id FROM bot
