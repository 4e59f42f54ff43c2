-- A pool's settings.
SELECT p.platform, p.backend, p.max_size, p.drained_at FROM pools p WHERE p.platform = %(platform)s
