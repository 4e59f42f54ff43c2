-- A page of the deliveries of a webhook, newest first.
SELECT
    d.id, d.webhook_id, d.event_id, d.type, d.bot_id, d.status, d.attempts, d.created_at,
    d.next_attempt_at, d.last_attempt_at, w.url, d.payload, d.response_status, d.response_body, d.problem,
    d.duration_ms
FROM webhook_deliveries d
JOIN webhooks w ON w.id = d.webhook_id
WHERE d.webhook_id = %(webhook_id)s::bigint AND d.id < %(before_id)s::bigint
  AND (%(status)s::text IS NULL OR d.status = %(status)s)
ORDER BY d.id DESC
LIMIT %(limit)s
