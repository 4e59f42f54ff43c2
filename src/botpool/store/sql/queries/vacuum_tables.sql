-- Take the dead rows of slots and queue out of their tables and indexes. Nobody waits for it: not for
-- a table that somebody else vacuums, and no page is given back, for which all would have to wait.
VACUUM (SKIP_LOCKED, TRUNCATE false) bot_pool_slots, bot_pool_queue
