-- Find the API key of a session by its id, unless it is revoked.
SELECT k.id, k.name, k.scope, k.prefix, k.created_at, k.revoked_at
FROM api_keys k
WHERE k.id = %(key_id)s AND k.revoked_at IS NULL
