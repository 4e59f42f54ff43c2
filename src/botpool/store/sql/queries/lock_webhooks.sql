-- Take the lock under which webhooks are counted and created, until the transaction ends.
SELECT pg_advisory_xact_lock(1651471474, 0)
