-- Forget some of what happened long ago.
DELETE FROM history
WHERE id IN (
    SELECT h.id
    FROM history h
    WHERE h.at < botpool_now() - make_interval(days => %(days)s)
    ORDER BY h.at
    LIMIT %(limit)s)
RETURNING id
