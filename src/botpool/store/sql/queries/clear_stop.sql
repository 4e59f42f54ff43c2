-- Discard a stop that was sent while a deployment was active: the deployment may start the container
-- again, so the reconciler repeats the stop. Fenced.
UPDATE bot_pool_slots
SET stop_issued_at = NULL,
    next_step_at = botpool_now(),
    version = version + 1
WHERE id = %(slot_id)s
  AND assignment_id = %(assignment_id)s
  AND version = %(version)s
  AND status = 'releasing'
  -- Limited in time: the reconciler then deletes a container that does not stop.
  AND phase_at > botpool_now() - make_interval(secs => %(limit_s)s)
RETURNING version
