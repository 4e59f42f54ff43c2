-- Lease the looks that are due: pools with a container that should run. One replica looks for all.
UPDATE pools p
SET look_at = botpool_now() + make_interval(secs => %(interval_s)s)
WHERE p.look_at <= botpool_now()
  AND p.backend = ANY(%(backends)s)
  AND EXISTS (
      SELECT
      FROM bot_pool_slots s
      WHERE s.platform = p.platform AND s.status IN ('deploying', 'busy'))
RETURNING p.platform, p.backend
