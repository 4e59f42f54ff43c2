-- Take the lock of a backend's gate until the transaction ends. Alone in its statement, and never
-- after a row of a slot was locked.
SELECT pg_advisory_xact_lock(1651471473, hashtext(%(backend)s))
