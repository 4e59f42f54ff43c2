-- A bot whose last deployment failed, and which may not be tried again, has failed.
-- Runs after its slot was freed and after requeue_bot, in that transaction.
WITH bot AS (
    UPDATE bots b
    SET status = 'FAILED',
        failure_code = 'deploy_failed',
        failure_reason = %(reason)s,
        ended_at = botpool_now()
    WHERE b.id = %(bot_id)s
      AND b.assignment_id = %(assignment_id)s
      AND b.status = 'DEPLOYING'
      AND NOT EXISTS (SELECT FROM bot_pool_slots s WHERE s.assigned_bot_id = b.id)
    RETURNING b.id, b.correlation_id
), written AS (
    INSERT INTO history (kind, bot_id, from_state, to_state, reason, correlation_id)
    SELECT 'bot.status', bot.id, 'DEPLOYING', 'FAILED', %(reason)s, bot.correlation_id
    FROM bot
)
SELECT bot.id AS bot_id FROM bot
