-- Find the API key of a session, unless the session has ended or the key is revoked or expired.
SELECT k.id, k.name, k.scope, k.tenant_id, t.name AS tenant, k.prefix, k.created_at,
       k.expires_at, k.revoked_at, k.last_used_at, k.overlap_ends_at, k.min_priority,
       t.posts_per_minute
FROM dashboard_sessions s
JOIN api_keys k ON k.id = s.api_key_id
JOIN tenants t ON t.id = k.tenant_id
WHERE s.id_hash = %(id_hash)s
  AND s.ends_at > botpool_now()
  AND k.revoked_at IS NULL
  AND (k.expires_at IS NULL OR k.expires_at > botpool_now())
