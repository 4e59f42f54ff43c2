-- List webhooks: one, those of a tenant, or all.
SELECT
    w.id, w.tenant_id, t.name AS tenant, w.url, w.description, w.events, w.created_at, w.created_by,
    w.disabled_at, w.disabled_reason, w.failing_since, w.last_delivered_at,
    CASE WHEN w.paused_until > botpool_now() THEN w.paused_until END AS paused_until,
    CASE WHEN w.overlap_ends_at > botpool_now() THEN w.overlap_ends_at END AS overlap_ends_at,
    (
        SELECT count(*) FROM webhook_deliveries d WHERE d.webhook_id = w.id AND d.status = 'pending'
    )::integer AS pending,
    (
        SELECT count(*) FROM webhook_deliveries d
        WHERE d.webhook_id = w.id AND d.status = 'failed' AND d.history_id IS NOT NULL
    )::integer AS failed
FROM webhooks w
LEFT JOIN tenants t ON t.id = w.tenant_id
WHERE (%(webhook_id)s::bigint IS NULL OR w.id = %(webhook_id)s)
  AND (%(tenant_id)s::bigint IS NULL OR w.tenant_id = %(tenant_id)s)
ORDER BY w.id
