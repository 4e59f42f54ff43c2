-- Revoke an API key. A key that was revoked before keeps its time.
UPDATE api_keys
SET revoked_at = coalesce(revoked_at, botpool_now())
WHERE id = %(key_id)s
RETURNING
    id, name, scope, tenant_id, (SELECT t.name FROM tenants t WHERE t.id = tenant_id) AS tenant,
    prefix, created_at, expires_at, revoked_at, last_used_at, overlap_ends_at,
    min_priority
