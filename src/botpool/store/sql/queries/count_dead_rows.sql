-- Count live and dead rows of the tables that every step of a slot writes.
SELECT sum(t.n_live_tup)::bigint AS live, sum(t.n_dead_tup)::bigint AS dead
FROM pg_stat_all_tables t
WHERE t.relid IN ('bot_pool_slots'::regclass, 'bot_pool_queue'::regclass)
