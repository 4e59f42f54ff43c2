-- After a restore to another server: continue after the last row that was read, whose history now has
-- the lowest transaction id (renumber_restored_history).
UPDATE webhooks
SET cursor_xid = '3', cursor_id = newest_id
WHERE cursor_xid > pg_snapshot_xmax(pg_current_snapshot())
RETURNING id
