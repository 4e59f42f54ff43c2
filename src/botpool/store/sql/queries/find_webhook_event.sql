-- A delivery of an event to a webhook.
SELECT d.id
FROM webhook_deliveries d
WHERE d.webhook_id = %(webhook_id)s::bigint AND d.event_id = %(event_id)s AND d.history_id IS NOT NULL
