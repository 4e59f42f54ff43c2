-- 12. The next in a queue whose pool has an assignable idle slot, or room to grow.
SELECT DISTINCT ON (p.platform) q.bot_id AS next_bot, p.platform AS pool
FROM pools p
JOIN bot_pool_queue q ON q.platform = p.platform AND q.timeout_at > botpool_now()
WHERE p.drained_at IS NULL
  AND (
      EXISTS (
          SELECT
          FROM bot_pool_slots s
          WHERE s.platform = p.platform AND s.status = 'idle' AND NOT s.cordoned)
      OR (SELECT count(*) FROM slot_identities i WHERE i.platform = p.platform) < p.max_size
  )
ORDER BY p.platform, q.priority, q.bot_id
