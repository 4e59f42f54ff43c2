-- Give a webhook a new secret; the former one signs too until the overlap ends.
UPDATE webhooks
SET sealed_secret = %(sealed_secret)s,
    former_sealed_secret = sealed_secret,
    overlap_ends_at = botpool_now() + make_interval(secs => %(overlap_s)s)
WHERE id = %(webhook_id)s
RETURNING id
