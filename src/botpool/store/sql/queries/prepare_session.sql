-- What every connection of ours sets. A replica that is paused inside a transaction must not hold a
-- pool's lock for long; counts made after a lock need a snapshot for each statement.
SELECT
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('idle_in_transaction_session_timeout', '15s', false),
    set_config('statement_timeout', '30s', false),
    set_config('lock_timeout', '20s', false),
    set_config('timezone', 'UTC', false),
    -- Statements are planned once for a connection: planning ours anew takes longer than running
    -- them, and compiling them longer still.
    set_config('plan_cache_mode', 'force_generic_plan', false),
    -- So a plan that was made while a table was small must be good when it is large: no reading
    -- from end to end, no merging, for which an index is read so, and no sorting of what an index
    -- has in order.
    set_config('enable_seqscan', 'off', false),
    set_config('enable_mergejoin', 'off', false),
    set_config('enable_bitmapscan', 'off', false),
    set_config('jit', 'off', false)
