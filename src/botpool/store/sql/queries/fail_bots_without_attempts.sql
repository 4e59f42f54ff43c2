-- Fail the bots whose last deployment failed and that requeue_bots did not queue.
-- Runs after free_slots and requeue_bots, in their transaction.
WITH bot AS (
    UPDATE bots b
    SET status = 'FAILED',
        failure_code = coalesce(a.failure_code, 'deploy_failed'),
        failure_reason = f.reason,
        ended_at = botpool_now()
    FROM assignments a,
         unnest(%(bot_ids)s::bigint[], %(assignment_ids)s::bigint[], %(reasons)s::text[])
             AS f (bot_id, assignment_id, reason)
    -- ANY and IS TRUE keep the planner on the primary key, also with a plan made for a small table.
    WHERE b.id = ANY (%(bot_ids)s::bigint[])
      AND b.id = f.bot_id
      AND b.assignment_id = f.assignment_id
      AND a.id = f.assignment_id
      AND (b.status = 'DEPLOYING') IS TRUE
      AND NOT EXISTS (
          SELECT
          FROM bot_pool_slots s
          WHERE s.assigned_bot_id = b.id AND s.assigned_bot_id = ANY (%(bot_ids)s::bigint[]))
    RETURNING b.id, b.correlation_id, b.failure_code, f.reason
), written AS (
    INSERT INTO history (kind, bot_id, from_state, to_state, reason, correlation_id)
    SELECT 'bot.status', bot.id, 'DEPLOYING', 'FAILED', bot.reason, bot.correlation_id
    FROM bot
    ORDER BY bot.id
)
SELECT bot.id AS bot_id, bot.failure_code FROM bot
