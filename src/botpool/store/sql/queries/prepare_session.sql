-- Set the session parameters of every connection. The timeouts keep a paused replica from holding a
-- pool's lock for long; READ COMMITTED gives the statement after a lock a new snapshot.
SELECT
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('idle_in_transaction_session_timeout', %(idle_in_transaction_timeout)s, false),
    set_config('statement_timeout', %(statement_timeout)s, false),
    set_config('lock_timeout', %(lock_timeout)s, false),
    set_config('timezone', 'UTC', false),
    -- Each connection plans a statement once: planning takes longer than running it, and JIT
    -- compilation longer still.
    set_config('plan_cache_mode', 'force_generic_plan', false),
    -- A plan from a time with small tables must suit large ones: no sequential scans, no merge
    -- joins, which read whole indexes, and no bitmap scans, which lose the order of an index.
    set_config('enable_seqscan', 'off', false),
    set_config('enable_mergejoin', 'off', false),
    set_config('enable_bitmapscan', 'off', false),
    set_config('jit', 'off', false)
