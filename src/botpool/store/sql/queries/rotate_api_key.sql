-- Give an API key a new hash. Its former hash stays valid for the overlap, and its lifetime begins anew.
UPDATE api_keys
SET former_key_hash = key_hash,
    overlap_ends_at = botpool_now() + make_interval(secs => %(overlap_s)s),
    key_hash = %(key_hash)s,
    prefix = %(prefix)s,
    expires_at = botpool_now() + lifetime
WHERE id = %(key_id)s
  AND revoked_at IS NULL
  AND (expires_at IS NULL OR expires_at > botpool_now())
RETURNING
    id, name, scope, tenant_id, (SELECT t.name FROM tenants t WHERE t.id = tenant_id) AS tenant,
    prefix, created_at, expires_at, revoked_at, last_used_at, overlap_ends_at,
    min_priority
