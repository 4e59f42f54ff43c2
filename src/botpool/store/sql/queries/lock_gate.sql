-- Take the lock of a backend's image gate until the transaction ends. Alone in its statement, and
-- never after a lock of a slot's row.
SELECT pg_advisory_xact_lock(1651471473, hashtext(%(backend)s))
