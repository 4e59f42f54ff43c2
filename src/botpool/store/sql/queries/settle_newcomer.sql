-- After the match: the newcomer that enqueue_bot wrote in this transaction is QUEUED if it got no
-- slot. Answers with the bot as it is, and its position while it waits. Its id was left in the
-- transaction by enqueue_bot, so that all the statements travel together.
WITH newcomer AS MATERIALIZED (
    SELECT nullif(current_setting('botpool.newcomer', true), '')::bigint AS bot_id
), waiting AS MATERIALIZED (
    SELECT q.bot_id, q.platform, q.priority, q.queued_at
    FROM bot_pool_queue q
    WHERE q.bot_id = (SELECT newcomer.bot_id FROM newcomer)
), queued AS (
    UPDATE bots b
    SET status = 'QUEUED', queued_at = waiting.queued_at
    FROM waiting
    WHERE b.id = waiting.bot_id
    RETURNING b.id, b.correlation_id
), written AS (
    INSERT INTO history (kind, bot_id, from_state, to_state, reason, correlation_id)
    SELECT 'bot.status', queued.id, 'PENDING', 'QUEUED', 'no slot was free', queued.correlation_id
    FROM queued
)
SELECT
    b.id, b.correlation_id, b.platform, b.meeting_url, b.bot_display_name,
    CASE WHEN waiting.bot_id IS NULL THEN b.status ELSE 'QUEUED' END AS status,
    b.priority, b.slot_name, b.container_id, b.attempts, b.failure_reason, b.failure_code,
    b.created_at, coalesce(waiting.queued_at, b.queued_at) AS queued_at, b.assigned_at,
    b.started_at, NULL::timestamptz AS last_heartbeat_at, b.ended_at,
    CASE WHEN waiting.bot_id IS NOT NULL THEN (
        SELECT count(*)
        FROM bot_pool_queue ahead
        WHERE ahead.platform = waiting.platform
          AND (ahead.priority, ahead.bot_id) <= (waiting.priority, waiting.bot_id)
    ) END AS position
FROM bots b
LEFT JOIN waiting ON waiting.bot_id = b.id
WHERE b.id = (SELECT newcomer.bot_id FROM newcomer)
