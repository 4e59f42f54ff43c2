-- Enable a webhook again and make its first pending events due now. The transaction holds the lock of the
-- webhook.
WITH enabled AS (
    UPDATE webhooks w
    SET disabled_at = NULL, disabled_reason = NULL, failing_since = NULL, failures = 0, paused_until = NULL
    WHERE w.id = %(webhook_id)s::bigint
), first AS (
    SELECT DISTINCT ON (d.bot_id) d.id
    FROM webhook_deliveries d
    WHERE d.webhook_id = %(webhook_id)s::bigint AND d.status = 'pending' AND d.bot_id IS NOT NULL
    ORDER BY d.bot_id, d.history_id
)
UPDATE webhook_deliveries d
SET next_attempt_at = botpool_now()
FROM first
WHERE d.id = first.id
  -- Not those whose attempt runs.
  AND coalesce(d.next_attempt_at > botpool_now() + make_interval(secs => %(lease_s)s), true)
RETURNING d.id
