-- Forget some of what happened long ago: of the oldest transactions, what is too old.
DELETE FROM history h
USING (
    SELECT oldest.xid, oldest.id
    FROM (SELECT o.xid, o.id, o.at FROM history o ORDER BY o.xid, o.id LIMIT %(limit)s) AS oldest
    WHERE oldest.at < botpool_now() - make_interval(days => %(days)s)
) AS old
WHERE h.xid = old.xid AND h.id = old.id
RETURNING h.id
