-- Begin attempts of a webhook's due deliveries: one while it fails, else several. The lease is the time
-- of the next attempt: if this replica dies, another repeats the attempt then.
WITH webhook AS MATERIALIZED (
    SELECT
        w.id, w.url, w.sealed_secret,
        CASE WHEN w.overlap_ends_at > botpool_now() THEN w.former_sealed_secret END AS former_sealed_secret,
        CASE WHEN w.failures >= %(paused_after)s::integer THEN 1 ELSE %(limit)s::integer END AS places
    FROM webhooks w
    WHERE w.id = %(webhook_id)s AND w.disabled_at IS NULL
      AND coalesce(w.paused_until <= botpool_now(), true)
), due AS MATERIALIZED (
    SELECT d.id
    FROM webhook_deliveries d
    WHERE d.webhook_id = %(webhook_id)s AND d.status = 'pending' AND d.next_attempt_at <= botpool_now()
    ORDER BY d.next_attempt_at, d.id
    LIMIT (SELECT webhook.places FROM webhook)
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE webhook_deliveries d
SET attempts = d.attempts + 1,
    last_attempt_at = botpool_now(),
    next_attempt_at = botpool_now() + make_interval(secs => %(lease_s)s)
FROM due
CROSS JOIN webhook
WHERE d.id = due.id
RETURNING
    d.id, d.event_id, d.type, d.payload, d.attempts, webhook.url, webhook.sealed_secret,
    webhook.former_sealed_secret
