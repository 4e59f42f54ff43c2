-- All API keys, without their hashes.
SELECT k.id, k.name, k.scope, k.tenant_id, t.name AS tenant, k.prefix, k.created_at,
       k.expires_at, k.revoked_at, k.last_used_at, k.overlap_ends_at, k.min_priority
FROM api_keys k
JOIN tenants t ON t.id = k.tenant_id
ORDER BY k.id
