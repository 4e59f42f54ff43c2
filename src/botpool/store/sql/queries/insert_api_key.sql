-- Store a new API key, by its hash.
INSERT INTO api_keys (name, scope, tenant_id, prefix, key_hash, lifetime, expires_at, min_priority)
VALUES (%(name)s, %(scope)s, %(tenant_id)s, %(prefix)s, %(key_hash)s,
        make_interval(secs => %(lifetime_s)s), botpool_now() + make_interval(secs => %(lifetime_s)s),
        %(min_priority)s)
ON CONFLICT (key_hash) DO NOTHING
RETURNING
    id, name, scope, tenant_id, (SELECT t.name FROM tenants t WHERE t.id = tenant_id) AS tenant,
    prefix, created_at, expires_at, revoked_at, last_used_at, overlap_ends_at,
    min_priority
