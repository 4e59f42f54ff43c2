-- A look has shown the container running for the first time; its agent had said so before.
UPDATE assignments
SET seen_running_at = botpool_now()
WHERE id = %(assignment_id)s AND seen_running_at IS NULL
