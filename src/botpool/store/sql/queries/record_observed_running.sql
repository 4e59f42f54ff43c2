-- A look has shown the container running for the first time; its agent had said so before.
UPDATE assignments
SET observed_running_at = botpool_now()
WHERE id = %(assignment_id)s AND observed_running_at IS NULL
