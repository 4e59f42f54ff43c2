-- The sealed secrets of all webhooks.
SELECT w.id, w.sealed_secret, w.former_sealed_secret
FROM webhooks w
ORDER BY w.id
