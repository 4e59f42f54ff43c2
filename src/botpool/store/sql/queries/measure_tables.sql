-- Read the size of the database and the dead rows of its busiest tables.
SELECT
    pg_size_pretty(pg_database_size(current_database())) AS size,
    ARRAY(
        SELECT t.relname || ' ' || t.n_dead_tup || ' of ' || t.n_live_tup + t.n_dead_tup
        FROM pg_stat_user_tables t
        WHERE t.relid = ANY(
            ARRAY['bots', 'bot_pool_slots', 'bot_pool_queue', 'bot_heartbeats']::regclass[])
        ORDER BY t.relname
    ) AS dead_rows
