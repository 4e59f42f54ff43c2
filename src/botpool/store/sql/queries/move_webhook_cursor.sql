-- Store the position up to which a webhook has read history.
UPDATE webhooks
SET cursor_xid = %(cursor_xid)s::text::xid8,
    cursor_id = %(cursor_id)s,
    newest_id = greatest(newest_id, %(newest_id)s::bigint)
WHERE id = %(webhook_id)s
