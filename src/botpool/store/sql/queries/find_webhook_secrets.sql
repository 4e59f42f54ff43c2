-- The address of a webhook, and the sealed secrets that sign its requests now.
SELECT
    w.id, w.url, w.sealed_secret,
    CASE WHEN w.overlap_ends_at > botpool_now() THEN w.former_sealed_secret END AS former_sealed_secret
FROM webhooks w
WHERE w.id = %(webhook_id)s
