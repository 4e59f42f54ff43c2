-- Record what a backend prepared for the start, before the start is issued. Fenced: only the owner of
-- the slot starts it. The lease continues, because the same worker issues the start.
UPDATE bot_pool_slots
SET deployment_id = %(deployment_id)s,
    start_allowed_at = coalesce(start_allowed_at, botpool_now()),
    lease_until = botpool_now() + make_interval(secs => %(lease_s)s),
    version = version + 1
WHERE id = %(slot_id)s
  AND assignment_id IS NOT DISTINCT FROM %(assignment_id)s
  AND version = %(version)s
  AND (status = 'deploying' OR standby IN ('starting', 'pulling'))
RETURNING version, lease_until
