-- Lock a webhook for reading history; no row if another replica reads, or if the webhook is disabled.
SELECT w.id, w.tenant_id, w.events, w.cursor_xid::text::bigint AS cursor_xid, w.cursor_id
FROM webhooks w
WHERE w.id = %(webhook_id)s AND w.disabled_at IS NULL
FOR NO KEY UPDATE SKIP LOCKED
