-- A pool's settings.
SELECT p.pool_name, p.backend, p.max_size, p.drained_at FROM pools p WHERE p.pool_name = %(pool_name)s
