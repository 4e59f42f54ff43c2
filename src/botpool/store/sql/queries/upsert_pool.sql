-- Write a pool's settings. Nothing is touched when they are as before.
INSERT INTO pools AS p (platform, backend, image, max_size, heartbeats)
VALUES (%(platform)s, %(backend)s, %(image)s, %(max_size)s, %(heartbeats)s)
ON CONFLICT (platform) DO UPDATE
SET backend = EXCLUDED.backend,
    image = EXCLUDED.image,
    max_size = EXCLUDED.max_size,
    heartbeats = EXCLUDED.heartbeats,
    updated_at = botpool_now()
WHERE (p.backend, p.image, p.max_size, p.heartbeats)
    IS DISTINCT FROM (EXCLUDED.backend, EXCLUDED.image, EXCLUDED.max_size, EXCLUDED.heartbeats)
RETURNING p.platform
