-- Delete a batch of ended rollouts that are past their retention, with their revisions and the choices of their runs.
DELETE FROM revisions v
WHERE v.id = ANY (ARRAY(
    SELECT unnest(ARRAY[r.old_revision_id, r.new_revision_id])
    FROM rollouts r
    WHERE r.ended_at < botpool_now() - make_interval(days => %(days)s)
    ORDER BY r.id
    LIMIT %(limit)s))
RETURNING v.id
