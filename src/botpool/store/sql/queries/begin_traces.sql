-- Begin to write history as spans: from now on, unless an earlier replica has begun. After a restore to
-- another server, whose transactions have other ids, begin anew.
INSERT INTO trace_cursor AS c (cursor_xid)
VALUES (pg_snapshot_xmin(pg_current_snapshot()))
ON CONFLICT (id) DO UPDATE
SET cursor_xid = EXCLUDED.cursor_xid, cursor_id = 0
WHERE c.cursor_xid > pg_snapshot_xmax(pg_current_snapshot())
