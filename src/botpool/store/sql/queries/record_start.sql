-- The start was issued: from here on the pool's looks decide, and the deadline when none does.
UPDATE bot_pool_slots
SET start_issued_at = botpool_now(),
    deployment_id = %(deployment_id)s,
    start_allowed_at = coalesce(start_allowed_at, botpool_now()),
    deployment_ended_at = NULL,
    next_step_at = botpool_now() + make_interval(secs => %(timeout_s)s),
    step_attempts = 0,
    lease_owner = NULL,
    lease_until = NULL,
    version = version + 1
WHERE id = %(slot_id)s
  AND assignment_id = %(assignment_id)s
  AND version = %(version)s
  AND status = 'deploying'
RETURNING version
