-- Shift queue rows from the future, which a clock that was set back leaves, so that they began now.
WITH future AS MATERIALIZED (
    SELECT q.bot_id
    FROM bot_pool_queue q
    WHERE q.queued_at > botpool_now() + make_interval(secs => %(tolerance_s)s)
    ORDER BY q.bot_id
    FOR UPDATE SKIP LOCKED
)
UPDATE bot_pool_queue q
SET timeout_at = q.timeout_at - (q.queued_at - botpool_now()), queued_at = botpool_now()
FROM future
WHERE q.bot_id = future.bot_id
RETURNING q.bot_id
