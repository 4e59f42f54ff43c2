-- Store the position up to which history was written as spans, and return the lease. No row: the lease has ended,
-- and another replica writes these spans again, with the same ids.
UPDATE trace_cursor c
SET cursor_xid = %(cursor_xid)s::text::xid8, cursor_id = %(cursor_id)s, lease_until = NULL
WHERE c.lease_owner = %(owner)s AND c.lease_until > botpool_now()
RETURNING c.cursor_id
