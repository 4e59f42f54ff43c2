-- Forget some of what happened long ago. History is numbered as it is written: the lowest numbers
-- are the oldest rows.
DELETE FROM history
WHERE id IN (
    SELECT oldest.id
    FROM (SELECT h.id, h.at FROM history h ORDER BY h.id LIMIT %(limit)s) AS oldest
    WHERE oldest.at < botpool_now() - make_interval(days => %(days)s))
RETURNING id
