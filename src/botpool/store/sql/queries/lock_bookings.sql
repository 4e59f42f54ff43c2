-- Take a pool's booking lock until the transaction ends, and that of a tenant with a quota, which
-- counts in all pools. Bookings are counted by a later statement, whose snapshot is taken after the
-- wait for the lock. Transactions take this lock before the pool's lock.
SELECT
    pg_advisory_xact_lock(1651471473, hashtext(%(pool_name)s)),
    CASE WHEN (
        SELECT coalesce(t.max_booked, t.max_live) FROM tenants t WHERE t.id = %(tenant_id)s) IS NOT NULL
    THEN pg_advisory_xact_lock(1651471474, (%(tenant_id)s %% 2147483647)::integer) END
