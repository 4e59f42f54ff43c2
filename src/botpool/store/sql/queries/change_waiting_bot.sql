-- Change the priority and the name of a bot that has no slot yet; null keeps a value. No row: the bot
-- has a slot or has ended.
WITH waiting AS (
    UPDATE bot_pool_queue q
    SET priority = coalesce(%(priority)s::integer, q.priority)
    WHERE q.bot_id = %(bot_id)s
    RETURNING q.bot_id
)
UPDATE bots b
SET priority = coalesce(%(priority)s::integer, b.priority),
    bot_display_name = coalesce(%(bot_display_name)s::text, b.bot_display_name)
WHERE b.id = %(bot_id)s
  AND b.status IN ('SCHEDULED', 'QUEUED')
  AND (SELECT count(*) FROM waiting) >= 0
RETURNING b.id AS bot_id
