-- Take the lock of the data that belongs to a bot until the transaction ends. Rows are counted by a
-- later statement, whose snapshot is taken after the wait for the lock.
SELECT pg_advisory_xact_lock(1651471473, hashint8(%(bot_id)s::bigint))
