-- Find an API key by its id, unless it is revoked or expired.
SELECT k.id, k.name, k.scope, k.tenant_id, t.name AS tenant, k.prefix, k.created_at,
       k.expires_at, k.revoked_at, k.last_used_at, k.overlap_ends_at, k.min_priority,
       t.posts_per_minute
FROM api_keys k
JOIN tenants t ON t.id = k.tenant_id
WHERE k.id = %(key_id)s AND k.revoked_at IS NULL
  AND (k.expires_at IS NULL OR k.expires_at > botpool_now())
