-- Lease the backends whose observation is due, and that have a slot with a bot or nodes that change
-- without one. One replica observes for all.
UPDATE backends k
SET observe_after = botpool_now() + make_interval(secs => %(interval_s)s)
WHERE (k.observe_after IS NULL OR k.observe_after <= botpool_now())
  AND k.name = ANY(%(backends)s)
  AND (
      k.name = ANY(%(clusters)s::text[])
      OR EXISTS (
          SELECT
          FROM bot_pool_slots s
          WHERE s.backend = k.name
            AND s.status IN ('deploying', 'busy', 'releasing')
            -- Uses the index of slots with a bot.
            AND s.assigned_bot_id IS NOT NULL))
RETURNING k.name AS backend
