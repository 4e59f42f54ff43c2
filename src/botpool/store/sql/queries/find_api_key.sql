-- Find an API key by its hash, unless it is revoked.
SELECT k.id, k.name, k.scope, k.prefix, k.created_at, k.revoked_at
FROM api_keys k
WHERE k.key_hash = %(key_hash)s AND k.revoked_at IS NULL
