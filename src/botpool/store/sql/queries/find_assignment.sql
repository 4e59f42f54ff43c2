-- Find an assignment by its id.
SELECT a.id FROM assignments a WHERE a.id = %(assignment_id)s
