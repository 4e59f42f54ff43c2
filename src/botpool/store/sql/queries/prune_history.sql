-- Forget some of what happened long ago. History is numbered as it is written: the lowest numbers
-- are the oldest rows. They are named one by one: for a subquery, all of history would be read.
DELETE FROM history
WHERE id = ANY (ARRAY(
    SELECT oldest.id
    FROM (SELECT h.id, h.at FROM history h ORDER BY h.id LIMIT %(limit)s) AS oldest
    WHERE oldest.at < botpool_now() - make_interval(days => %(days)s)))
RETURNING id
