-- Whether a pool exists and admits bots.
SELECT p.drained_at FROM pools p WHERE p.pool_name = %(pool_name)s
