-- Store a new API key, by its hash.
INSERT INTO api_keys (name, scope, prefix, key_hash, lifetime, expires_at)
VALUES (%(name)s, %(scope)s, %(prefix)s, %(key_hash)s,
        make_interval(secs => %(lifetime_s)s), botpool_now() + make_interval(secs => %(lifetime_s)s))
ON CONFLICT (key_hash) DO NOTHING
RETURNING id, name, scope, prefix, created_at, expires_at, revoked_at, last_used_at,
          overlap_ends_at
