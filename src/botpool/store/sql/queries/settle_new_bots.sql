-- Make the bots that enqueue_bots wrote in this transaction QUEUED unless the match gave them a slot.
-- Returns the bots and, for queued ones, their positions; a position behind a thousand bots is null.
-- enqueue_bots leaves the ids in a setting of the transaction, so that all statements travel in one
-- round trip. The ids are compared as arrays: a join that was planned with an empty queue would scan
-- the whole queue.
WITH new_bot AS MATERIALIZED (
    SELECT n.bot_id
    FROM unnest(nullif(current_setting('botpool.new_bot_ids', true), '')::bigint[]) AS n (bot_id)
), waiting AS MATERIALIZED (
    SELECT
        q.bot_id, q.pool_name, q.priority, q.queued_at,
        (SELECT min(new_bot.bot_id) FROM new_bot) AS first_id,
        row_number() OVER (ORDER BY q.priority, q.bot_id) AS nth
    FROM bot_pool_queue q
    WHERE q.bot_id = ANY (ARRAY(SELECT new_bot.bot_id FROM new_bot))
), before AS MATERIALIZED (
    -- The caller holds the pool's lock: bots that waited before have lower ids.
    SELECT
        each.priority,
        (
            SELECT count(*)
            FROM (
                SELECT
                FROM bot_pool_queue o
                WHERE o.pool_name = each.pool_name
                  AND (o.priority, o.bot_id) < (each.priority, each.first_id)
                  AND o.bot_id < each.first_id
                LIMIT 1000
            ) AS counted
        ) AS bots
    FROM (SELECT DISTINCT w.pool_name, w.priority, w.first_id FROM waiting w) AS each
), queued AS (
    -- One statement queued all of them, so they have one time.
    UPDATE bots b
    SET status = 'QUEUED', queued_at = (SELECT min(waiting.queued_at) FROM waiting)
    WHERE b.id = ANY (ARRAY(SELECT waiting.bot_id FROM waiting))
    RETURNING b.id, b.correlation_id
), written AS (
    INSERT INTO history (kind, bot_id, from_state, to_state, reason, correlation_id)
    SELECT 'bot.status', queued.id, 'PENDING', 'QUEUED', %(reason)s, queued.correlation_id
    FROM queued
    ORDER BY queued.id
)
SELECT
    b.id AS bot_id,
    CASE WHEN waiting.bot_id IS NULL THEN b.status ELSE 'QUEUED' END AS status,
    b.slot_name, b.container_id, b.attempts, b.created_at,
    coalesce(waiting.queued_at, b.queued_at) AS queued_at, b.assigned_at,
    CASE WHEN before.bots < 1000 THEN before.bots + waiting.nth END AS position
FROM bots b
LEFT JOIN waiting ON waiting.bot_id = b.id
LEFT JOIN before ON before.priority = waiting.priority
WHERE b.id = ANY (ARRAY(SELECT new_bot.bot_id FROM new_bot))
