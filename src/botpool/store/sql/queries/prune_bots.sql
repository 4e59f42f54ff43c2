-- Delete the assignments and heartbeats of a batch of bots that ended long ago, and return the bots for
-- delete_bots. Meeting links contain passwords, so that they are not kept for ever.
WITH old AS MATERIALIZED (
    SELECT b.id
    FROM bots b
    -- A bot that ended before a time was also created before it, so that ids bound the search.
    WHERE b.id < (
              SELECT botpool_first_bot_since(botpool_now() - make_interval(days => %(days)s)))
      AND b.ended_at < botpool_now() - make_interval(days => %(days)s)
      AND NOT EXISTS (SELECT FROM bot_pool_slots s WHERE s.assigned_bot_id = b.id)
    ORDER BY b.id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), assigned AS (
    DELETE FROM assignments a USING old WHERE a.bot_id = old.id RETURNING a.id
), heard AS (
    DELETE FROM bot_heartbeats h USING old WHERE h.bot_id = old.id
)
SELECT old.id FROM old
