-- A statement is planned once for a connection, from what the server knows of the tables by then.
-- What it knew at night must do at ten o'clock. Every statement of the version before still works.

-- At night no slot is deploying, so the server takes an index of statuses for the shortest way to
-- one slot of a thousand that do in the morning. Only who names this collation reads the index.
DROP INDEX idx_bot_pool_slots_status;
CREATE INDEX idx_bot_pool_slots_status
    ON bot_pool_slots (platform, status COLLATE "C", backend) WITH (deduplicate_items = off);

-- Of a table that it has never seen the server expects some pages; of one that it saw with a handful
-- of rows, that reading it from end to end costs nothing. So it does not look before there are more.
ALTER TABLE bots SET (autovacuum_vacuum_threshold = 500, autovacuum_analyze_threshold = 500);
ALTER TABLE assignments SET (autovacuum_vacuum_threshold = 500, autovacuum_analyze_threshold = 500);
