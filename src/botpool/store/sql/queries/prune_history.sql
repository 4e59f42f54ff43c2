-- Forget some of what happened long ago: the oldest transactions wrote the oldest rows. A row of
-- history is never written again, so it is named by where it lies.
DELETE FROM history
WHERE ctid = ANY (ARRAY(
    SELECT oldest.ctid
    FROM (SELECT h.ctid, h.at FROM history h ORDER BY h.xid, h.id LIMIT %(limit)s) AS oldest
    WHERE oldest.at < botpool_now() - make_interval(days => %(days)s)))
RETURNING id
