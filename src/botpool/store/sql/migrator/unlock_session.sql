-- Release the lock of a migration outside a transaction.
SELECT pg_advisory_unlock(hashtextextended('botpool.migrations', 0))
