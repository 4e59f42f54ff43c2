-- Record a new status of a start's deployment, so that each change is logged once. Fenced.
UPDATE bot_pool_slots
SET deployment_status = %(deployment_status)s,
    version = version + 1
WHERE id = %(slot_id)s
  AND assignment_id IS NOT DISTINCT FROM %(assignment_id)s
  AND version = %(version)s
  AND (status = 'deploying' OR standby IN ('starting', 'pulling'))
RETURNING version
