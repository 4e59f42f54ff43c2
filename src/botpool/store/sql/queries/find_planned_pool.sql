-- The settings of a pool that decide how its bots wait.
SELECT p.max_size, p.warm FROM pools p WHERE p.pool_name = %(pool_name)s
