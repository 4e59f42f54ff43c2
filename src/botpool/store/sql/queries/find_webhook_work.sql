-- All enabled webhooks, and whether each has new history to read or deliveries that are due. Only history below the oldest
-- running transaction counts: nothing can appear below it later. A cursor beyond the newest transaction
-- comes from another server.
WITH horizon AS MATERIALIZED (
    SELECT pg_snapshot_xmin(pg_current_snapshot()) AS xid, pg_snapshot_xmax(pg_current_snapshot()) AS newest
)
SELECT
    w.id,
    w.cursor_xid > horizon.newest AS is_restored,
    EXISTS (
        SELECT FROM history h
        WHERE (h.xid, h.id) > (w.cursor_xid, w.cursor_id) AND h.xid < horizon.xid
    ) AND (
        SELECT count(*) FROM webhook_deliveries d
        WHERE d.webhook_id = w.id AND d.status = 'pending'
    ) < %(max_pending)s::integer AS reads,
    coalesce(w.paused_until <= botpool_now(), true) AND EXISTS (
        SELECT FROM webhook_deliveries d
        WHERE d.webhook_id = w.id AND d.status = 'pending' AND d.next_attempt_at <= botpool_now()
    ) AS sends
FROM webhooks w
CROSS JOIN horizon
WHERE w.disabled_at IS NULL
ORDER BY w.id
