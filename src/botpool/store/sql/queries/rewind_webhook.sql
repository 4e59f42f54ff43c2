-- Let a webhook read history again from a time on. The finished deliveries of that time are deleted, so
-- that the reading creates them anew. The transaction holds the lock of the webhook.
WITH start AS MATERIALIZED (
    SELECT min(h.xid::text::bigint)::text::xid8 AS xid, min(h.id) AS id
    FROM history h
    WHERE h.at >= %(since)s::timestamptz
), forgotten AS (
    DELETE FROM webhook_deliveries d
    USING start
    WHERE d.webhook_id = %(webhook_id)s::bigint AND d.status <> 'pending' AND d.history_id >= start.id
)
UPDATE webhooks w
SET cursor_xid = least(w.cursor_xid, start.xid),
    cursor_id = CASE WHEN w.cursor_xid < start.xid THEN w.cursor_id ELSE 0 END
FROM start
WHERE w.id = %(webhook_id)s::bigint AND start.xid IS NOT NULL
RETURNING w.id
