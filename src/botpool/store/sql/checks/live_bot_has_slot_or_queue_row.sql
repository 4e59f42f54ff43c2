-- 10. Bots without a final status that have neither a slot nor a queue row.
SELECT b.id AS bot, b.status
FROM bots b
WHERE b.status IN (
          'PENDING', 'DEPLOYING', 'JOINING_CALL', 'IN_WAITING_ROOM', 'IN_CALL', 'LEAVING',
          'CALL_ENDED')
  AND NOT EXISTS (SELECT FROM bot_pool_slots s WHERE s.assigned_bot_id = b.id)
