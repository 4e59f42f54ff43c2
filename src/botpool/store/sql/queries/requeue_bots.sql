-- Queue bots again whose deployments failed before their agents called, or whose runs the
-- infrastructure ended before the call, with their old priority and arrival number and a fresh
-- deadline. Infrastructure faults have a count and a limit of their own. Runs after free_slots, in
-- its transaction.
WITH bot AS (
    UPDATE bots b
    SET status = 'QUEUED', queued_at = coalesce(b.queued_at, botpool_now())
    FROM assignments a,
         unnest(%(bot_ids)s::bigint[], %(assignment_ids)s::bigint[], %(reasons)s::text[])
             AS f (bot_id, assignment_id, reason)
    -- ANY and IS TRUE keep the planner on the primary key, also with a plan made for a small table.
    WHERE b.id = ANY (%(bot_ids)s::bigint[])
      AND b.id = f.bot_id
      AND b.assignment_id = f.assignment_id
      AND (b.status = 'DEPLOYING') IS TRUE
      AND a.id = f.assignment_id
      AND CASE
          WHEN a.infrastructure_fault
          THEN botpool_infrastructure_faults(b.id) <= %(max_infrastructure_retries)s
          ELSE a.agent_called_at IS NULL
              AND b.attempts - botpool_infrastructure_faults(b.id) < %(max_attempts)s
          END
      AND NOT EXISTS (
          SELECT
          FROM bot_pool_slots s
          WHERE s.assigned_bot_id = b.id AND s.assigned_bot_id = ANY (%(bot_ids)s::bigint[]))
    RETURNING
        b.id, b.pool_name, b.tenant_id, b.priority, b.queue_timeout_ms, b.correlation_id, b.attempts,
        b.join_at, b.arrival, a.infrastructure_fault, f.reason
), waiting AS (
    INSERT INTO bot_pool_queue (
        bot_id, pool_name, tenant_id, priority, queued_at, timeout_at, due_number, reserved_join_at)
    SELECT
        bot.id, bot.pool_name, bot.tenant_id, bot.priority, botpool_now(),
        botpool_now() + make_interval(secs => greatest(bot.queue_timeout_ms, 60000) / 1000.0),
        bot.arrival,
        CASE WHEN (SELECT k.reserved FROM bookings k WHERE k.bot_id = bot.id) THEN bot.join_at END
    FROM bot
), written AS (
    INSERT INTO history (kind, bot_id, from_state, to_state, reason, correlation_id, data)
    SELECT
        'bot.status', bot.id, 'DEPLOYING', 'QUEUED', bot.reason, bot.correlation_id,
        CASE
            WHEN bot.infrastructure_fault
            THEN json_build_object(
                'attempts', bot.attempts,
                'infrastructureRetries', botpool_infrastructure_faults(bot.id))
            ELSE json_build_object('attempts', bot.attempts) END
    FROM bot
    ORDER BY bot.id
)
SELECT bot.id AS bot_id, bot.infrastructure_fault FROM bot
