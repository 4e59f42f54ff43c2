-- Record that the start was issued: observations decide from now on, or the deadline. Fenced.
UPDATE bot_pool_slots
SET start_issued_at = botpool_now(),
    deployment_id = %(deployment_id)s,
    deployment_status = CASE WHEN %(deployment_id)s::text IS NOT NULL THEN 'issued' END,
    start_allowed_at = coalesce(start_allowed_at, botpool_now()),
    deployment_ended_at = NULL,
    -- A standby whose agent already polls has no deadline of its start any more.
    next_step_at = CASE WHEN run_started_at IS NULL
                        THEN botpool_now() + make_interval(secs => %(timeout_s)s) ELSE next_step_at END,
    step_attempts = 0,
    lease_owner = NULL,
    lease_until = NULL,
    version = version + 1
WHERE id = %(slot_id)s
  AND assignment_id IS NOT DISTINCT FROM %(assignment_id)s
  AND version = %(version)s
  AND (status = 'deploying' OR standby IN ('starting', 'pulling'))
RETURNING version
