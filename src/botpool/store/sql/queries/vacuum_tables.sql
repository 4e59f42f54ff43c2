-- Remove the dead rows of slots and queue. SKIP_LOCKED skips a table that is being vacuumed, and without
-- TRUNCATE no statement waits for the vacuum.
VACUUM (SKIP_LOCKED, TRUNCATE false) bot_pool_slots, bot_pool_queue
