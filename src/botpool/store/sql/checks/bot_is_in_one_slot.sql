-- 1. Bots in more than one slot.
-- Meaning: 1. a bot is in at most one slot
-- Remedy: Botpool never writes this state. Back up the database, report it, then stop the bot: 'botpool
--   bot stop'.
-- Kind: always
SELECT s.assigned_bot_id AS bot, count(*) AS slots
FROM bot_pool_slots s
WHERE s.assigned_bot_id IS NOT NULL
GROUP BY s.assigned_bot_id
HAVING count(*) > 1
