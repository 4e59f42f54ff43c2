-- Return the lease and make the slot's next step due later. Fenced.
UPDATE bot_pool_slots
SET next_step_at = botpool_now() + make_interval(secs => %(delay_s)s),
    step_attempts = step_attempts + 1,
    stop_issued_at = CASE WHEN %(stop_issued)s AND %(stop_unreliable)s THEN botpool_now()
                          WHEN %(stop_issued)s THEN coalesce(stop_issued_at, botpool_now())
                          ELSE stop_issued_at END,
    delete_issued_at = CASE WHEN %(delete_issued)s THEN coalesce(delete_issued_at, botpool_now())
                            ELSE delete_issued_at END,
    error_message = CASE WHEN status = 'error' THEN coalesce(%(problem)s, error_message)
                         ELSE error_message END,
    lease_owner = NULL,
    lease_until = NULL,
    version = version + 1
WHERE id = %(slot_id)s
  AND assignment_id IS NOT DISTINCT FROM %(assignment_id)s
  AND version = %(version)s
RETURNING version
