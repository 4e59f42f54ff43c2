-- 7. Slots whose assignment has ended, belongs to another bot or is not the bot's last one.
-- Meaning: 7. a slot with a bot has the bot's last assignment, which has not ended
-- Remedy: Botpool never writes this state. Back up the database, report it, then stop the bot: 'botpool
--   bot stop'.
-- Kind: always
SELECT
    s.slot_name AS slot, s.assignment_id AS assignment, b.id AS bot,
    b.assignment_id AS assignment_of_bot
FROM bot_pool_slots s
JOIN bots b ON b.id = s.assigned_bot_id
LEFT JOIN assignments a ON a.id = s.assignment_id
WHERE b.assignment_id IS DISTINCT FROM s.assignment_id OR a.ended_at IS NOT NULL OR a.bot_id <> b.id
