-- Read the age of the oldest pending delivery of all enabled webhooks for the metrics; 0 without any.
SELECT coalesce(extract(epoch FROM botpool_now() - min(pending.oldest_at)), 0)::float8 AS oldest_pending_s
FROM webhooks w
CROSS JOIN LATERAL (
    SELECT min(d.created_at) AS oldest_at
    FROM webhook_deliveries d
    WHERE d.webhook_id = w.id
      AND d.status = 'pending'
) AS pending
WHERE w.disabled_at IS NULL
