-- Lease the looks that are due: backends with a container whose end or beginning is awaited. One
-- replica looks for all.
UPDATE backends k
SET observe_after = botpool_now() + make_interval(secs => %(interval_s)s)
WHERE k.observe_after <= botpool_now()
  AND k.name = ANY(%(backends)s)
  AND EXISTS (
      SELECT
      FROM bot_pool_slots s
      WHERE s.backend = k.name
        AND s.status IN ('deploying', 'busy', 'releasing')
        -- Those with a bot have an index of their own.
        AND s.assigned_bot_id IS NOT NULL)
RETURNING k.name AS backend
