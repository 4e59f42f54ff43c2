-- 12. The head of each queue whose pool has an assignable idle slot or room to grow.
-- Meaning: 12. no queue row remains beside an assignable idle slot or room to grow, unless its tenant is at its quota or the pool is paced
-- Remedy: Check that a replica runs ('replicas', 'schema') and read its log for 'loop.failed'.
-- Kind: momentary
SELECT DISTINCT ON (p.pool_name) q.bot_id AS next_bot, p.pool_name AS pool
FROM pools p
JOIN bot_pool_queue q ON q.pool_name = p.pool_name AND q.timeout_at > botpool_now()
WHERE p.drained_at IS NULL
  -- A tenant at its quota waits for its own bots.
  AND coalesce((
              SELECT coalesce(t.live < t.max_live, false)
              FROM tenants t WHERE t.id = q.tenant_id AND t.max_live IS NOT NULL), true)
  -- In a paced pool, bots wait for a permit.
  AND CASE WHEN p.egress IS NULL THEN true ELSE botpool_assignable_bots(p.egress) > 0 END
  AND (
      EXISTS (
          SELECT
          FROM bot_pool_slots s
          WHERE s.pool_name = p.pool_name AND s.claim_rank IS NOT NULL)
      OR (SELECT count(*) FROM slot_identities i WHERE i.pool_name = p.pool_name) < p.max_size
  )
ORDER BY p.pool_name, q.priority, q.bot_id
