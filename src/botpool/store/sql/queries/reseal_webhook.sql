-- Replace the sealed secrets of a webhook, unless a rotation was faster.
UPDATE webhooks
SET sealed_secret = %(sealed_secret)s, former_sealed_secret = %(former_sealed_secret)s::bytea
WHERE id = %(webhook_id)s AND sealed_secret = %(known_secret)s
RETURNING id
