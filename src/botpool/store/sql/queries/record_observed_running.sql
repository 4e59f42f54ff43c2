-- Record the first observation that shows an assignment's container running.
UPDATE assignments
SET observed_running_at = botpool_now()
WHERE id = %(assignment_id)s AND observed_running_at IS NULL
