-- Take the lock that allows one migration at a time, until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('botpool.migrations', 0))
