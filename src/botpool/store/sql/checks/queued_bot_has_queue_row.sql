-- 5. QUEUED bots without a queue row, queue rows of other bots, and queued bots that have a slot.
-- Meaning: 5. a bot is QUEUED exactly while it has a queue row, and then has no slot
-- Remedy: Botpool never writes this state. Back up the database, report it, then stop the bot: 'botpool
--   bot stop'.
-- Kind: always
SELECT b.id AS bot, b.status, 'no queue row' AS problem
FROM bots b
WHERE b.status = 'QUEUED' AND NOT EXISTS (SELECT FROM bot_pool_queue q WHERE q.bot_id = b.id)
UNION ALL
SELECT b.id, b.status, 'a queue row'
FROM bot_pool_queue q
JOIN bots b ON b.id = q.bot_id
WHERE b.status <> 'QUEUED'
UNION ALL
SELECT q.bot_id, s.status, 'queued and in ' || s.slot_name
FROM bot_pool_queue q
JOIN bot_pool_slots s ON s.assigned_bot_id = q.bot_id
