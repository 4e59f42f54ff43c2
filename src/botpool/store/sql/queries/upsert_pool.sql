-- Write a pool's settings, if they changed.
INSERT INTO pools AS p (pool_name, backend, image, max_size, heartbeats, cpus, memory_mb)
VALUES (
    %(pool_name)s, %(backend)s, %(image)s, %(max_size)s, %(heartbeats)s, %(cpus)s, %(memory_mb)s)
ON CONFLICT (pool_name) DO UPDATE
SET backend = EXCLUDED.backend,
    image = EXCLUDED.image,
    max_size = EXCLUDED.max_size,
    heartbeats = EXCLUDED.heartbeats,
    cpus = EXCLUDED.cpus,
    memory_mb = EXCLUDED.memory_mb,
    updated_at = botpool_now()
WHERE (p.backend, p.image, p.max_size, p.heartbeats, p.cpus, p.memory_mb)
    IS DISTINCT FROM (
        EXCLUDED.backend, EXCLUDED.image, EXCLUDED.max_size, EXCLUDED.heartbeats, EXCLUDED.cpus,
        EXCLUDED.memory_mb)
RETURNING p.pool_name
