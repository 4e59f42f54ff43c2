-- After the match: the newcomers that enqueue_bots wrote in this transaction are QUEUED if they got
-- no slot. Answers with the bots as they are, and the positions of those that wait; it is not
-- counted where a thousand came before. Their ids were left in the transaction by enqueue_bots, so
-- that all the statements travel together.
-- By their bots, and not by joins, which would read all of the queue where they were planned while
-- nobody waited.
WITH newcomer AS MATERIALIZED (
    SELECT n.bot_id
    FROM unnest(nullif(current_setting('botpool.newcomers', true), '')::bigint[]) AS n (bot_id)
), waiting AS MATERIALIZED (
    SELECT
        q.bot_id, q.pool_name, q.priority, q.queued_at,
        (SELECT min(newcomer.bot_id) FROM newcomer) AS first_id,
        row_number() OVER (ORDER BY q.priority, q.bot_id) AS nth
    FROM bot_pool_queue q
    WHERE q.bot_id = ANY (ARRAY(SELECT newcomer.bot_id FROM newcomer))
), before AS MATERIALIZED (
    -- The pool's lock is held: whoever waited before has a lower id.
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
    -- They came in one statement, at one time.
    UPDATE bots b
    SET status = 'QUEUED', queued_at = (SELECT min(waiting.queued_at) FROM waiting)
    WHERE b.id = ANY (ARRAY(SELECT waiting.bot_id FROM waiting))
    RETURNING b.id, b.correlation_id
), written AS (
    INSERT INTO history (kind, bot_id, from_state, to_state, reason, correlation_id)
    SELECT 'bot.status', queued.id, 'PENDING', 'QUEUED', 'no slot was free', queued.correlation_id
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
WHERE b.id = ANY (ARRAY(SELECT newcomer.bot_id FROM newcomer))
