-- Create the deliveries of events, unless they exist. The first pending event of a bot is due now; the
-- others wait for it. The transaction holds the lock of the webhook.
INSERT INTO webhook_deliveries (
    webhook_id, event_id, history_id, bot_id, type, payload, next_attempt_at)
SELECT
    %(webhook_id)s::bigint, e.event_id, e.history_id, e.bot_id, e.type, e.payload,
    CASE
        WHEN e.bot_id IS NULL THEN botpool_now()
        WHEN row_number() OVER (PARTITION BY e.bot_id ORDER BY e.history_id) > 1 THEN NULL
        WHEN EXISTS (
            SELECT FROM webhook_deliveries d
            WHERE d.webhook_id = %(webhook_id)s::bigint AND d.bot_id = e.bot_id AND d.status = 'pending'
        ) THEN NULL
        ELSE botpool_now()
    END
FROM unnest(
    %(event_ids)s::text[], %(history_ids)s::bigint[], %(bot_ids)s::bigint[], %(types)s::text[],
    %(payloads)s::text[]
) AS e (event_id, history_id, bot_id, type, payload)
WHERE NOT EXISTS (
    SELECT FROM webhook_deliveries d
    WHERE d.webhook_id = %(webhook_id)s::bigint AND d.history_id = e.history_id)
ORDER BY e.history_id
