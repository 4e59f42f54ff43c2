-- Some of the history that was written on another server, by transactions whose numbers this one has
-- not reached: they get the lowest number, since all of it was before. Of our own, everything that
-- can be seen was written by transactions below.
UPDATE history
SET xid = '3'
WHERE ctid = ANY (ARRAY(
    SELECT h.ctid
    FROM history h
    WHERE h.xid >= pg_snapshot_xmax(pg_current_snapshot())
    ORDER BY h.xid, h.id
    LIMIT %(limit)s))
RETURNING id
