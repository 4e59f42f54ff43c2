-- Give a batch of history from another server the lowest transaction id, so that it sorts before all rows
-- of this server. Rows of another server have ids that this server has not reached.
UPDATE history
SET xid = '3'
WHERE ctid = ANY (ARRAY(
    SELECT h.ctid
    FROM history h
    WHERE h.xid >= pg_snapshot_xmax(pg_current_snapshot())
    ORDER BY h.xid, h.id
    LIMIT %(limit)s))
RETURNING id
