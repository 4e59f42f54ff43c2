-- Take the pool's lock until the transaction ends. Rows are counted by a later statement, whose
-- snapshot is taken after the wait for the lock.
SELECT pg_advisory_xact_lock(1651471472, hashtext(%(pool_name)s))
