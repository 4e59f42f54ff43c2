-- A stop was sent while a deployment was still under way, which may bring the container back: it
-- does not count, and is sent again. Fenced.
UPDATE bot_pool_slots
SET stop_issued_at = NULL,
    next_step_at = botpool_now(),
    version = version + 1
WHERE id = %(slot_id)s
  AND assignment_id = %(assignment_id)s
  AND version = %(version)s
  AND status = 'releasing'
  -- Not for ever: what a stop cannot end is deleted in the end.
  AND phase_at > botpool_now() - make_interval(secs => %(patience_s)s)
RETURNING version
