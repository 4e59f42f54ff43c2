-- Lease the cursor of traces if there is new history below the oldest running transaction; no row if there is
-- none, or if another replica writes spans.
UPDATE trace_cursor c
SET lease_owner = %(owner)s, lease_until = botpool_now() + make_interval(secs => %(lease_s)s)
WHERE (c.lease_until IS NULL OR c.lease_until <= botpool_now())
  AND EXISTS (
      SELECT FROM history h
      WHERE (h.xid, h.id) > (c.cursor_xid, c.cursor_id)
        AND h.xid < pg_snapshot_xmin(pg_current_snapshot()))
RETURNING c.cursor_xid::text::bigint AS cursor_xid, c.cursor_id
