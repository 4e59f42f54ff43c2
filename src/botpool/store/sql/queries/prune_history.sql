-- Delete a batch of the oldest rows of history. Transaction ids give the order; rows from another server
-- have been renumbered (renumber_restored_history). No other statement writes these rows, so that ctid
-- identifies them safely.
DELETE FROM history
WHERE ctid = ANY (ARRAY(
    SELECT oldest.ctid
    FROM (SELECT h.ctid, h.at FROM history h ORDER BY h.xid, h.id LIMIT %(limit)s) AS oldest
    WHERE oldest.at < botpool_now() - make_interval(days => %(days)s)))
RETURNING id
