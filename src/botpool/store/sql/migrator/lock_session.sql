-- Take the lock that allows one migration at a time, for a migration outside a transaction.
SELECT pg_advisory_lock(hashtextextended('botpool.migrations', 0))
