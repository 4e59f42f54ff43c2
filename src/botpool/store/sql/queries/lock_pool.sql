-- Take the pool's lock until the transaction ends. Alone in its statement: what is counted under
-- the lock must be read by a later one, whose snapshot is taken after the wait.
SELECT pg_advisory_xact_lock(1651471472, hashtext(%(pool_name)s))
