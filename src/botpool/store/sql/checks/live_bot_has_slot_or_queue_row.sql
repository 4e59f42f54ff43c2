-- 10. Bots without a final status that have neither a slot nor a queue row.
-- Meaning: 10. a bot without a final status is queued or in a slot
-- Remedy: Botpool never writes this state. Back up the database, report it, then create a new bot for
--   that meeting: this one is lost.
-- Kind: always
SELECT b.id AS bot, b.status
FROM bots b
WHERE b.status IN (
          'PENDING', 'DEPLOYING', 'JOINING_CALL', 'IN_WAITING_ROOM', 'IN_CALL', 'LEAVING',
          'CALL_ENDED')
  AND NOT EXISTS (SELECT FROM bot_pool_slots s WHERE s.assigned_bot_id = b.id)
