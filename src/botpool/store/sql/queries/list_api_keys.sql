-- All API keys, without their hashes.
SELECT k.id, k.name, k.scope, k.prefix, k.created_at, k.expires_at, k.revoked_at,
       k.last_used_at, k.overlap_ends_at
FROM api_keys k
ORDER BY k.id
