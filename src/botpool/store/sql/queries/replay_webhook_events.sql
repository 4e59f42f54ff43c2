-- Deliver events again: one event, or all that failed. Their attempts begin anew. The transaction holds
-- the lock of the webhook.
UPDATE webhook_deliveries d
SET status = 'pending', attempts = 0,
    next_attempt_at = CASE WHEN d.bot_id IS NULL THEN botpool_now() END
WHERE d.webhook_id = %(webhook_id)s::bigint AND d.history_id IS NOT NULL AND d.status <> 'pending'
  AND CASE
      WHEN %(event_id)s::text IS NULL THEN d.status = 'failed'
      ELSE d.event_id = %(event_id)s
  END
RETURNING d.id
