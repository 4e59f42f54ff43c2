-- Forget some of what happened long ago: the oldest transactions wrote the oldest rows, and what came
-- from another server was adopted (see renumber_restored_history). Nobody else writes these rows: they are named
-- by where they lie.
DELETE FROM history
WHERE ctid = ANY (ARRAY(
    SELECT oldest.ctid
    FROM (SELECT h.ctid, h.at FROM history h ORDER BY h.xid, h.id LIMIT %(limit)s) AS oldest
    WHERE oldest.at < botpool_now() - make_interval(days => %(days)s)))
RETURNING id
