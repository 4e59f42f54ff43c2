-- Find an API key by its hash, or by its former hash until the overlap ends, unless it is revoked
-- or expired.
SELECT k.id, k.name, k.scope, k.tenant_id, t.name AS tenant, k.prefix, k.created_at,
       k.expires_at, k.revoked_at, k.last_used_at, k.overlap_ends_at, k.min_priority,
       t.posts_per_minute
FROM api_keys k
JOIN tenants t ON t.id = k.tenant_id
WHERE (k.key_hash = %(key_hash)s
       OR (k.former_key_hash = %(key_hash)s AND k.overlap_ends_at > botpool_now()))
  AND k.revoked_at IS NULL
  AND (k.expires_at IS NULL OR k.expires_at > botpool_now())
