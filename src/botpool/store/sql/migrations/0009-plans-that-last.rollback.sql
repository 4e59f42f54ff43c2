ALTER TABLE assignments RESET (autovacuum_vacuum_threshold, autovacuum_analyze_threshold);
ALTER TABLE bots RESET (autovacuum_vacuum_threshold, autovacuum_analyze_threshold);
DROP INDEX idx_bot_pool_slots_status;
CREATE INDEX idx_bot_pool_slots_status
    ON bot_pool_slots (platform, status, backend) WITH (deduplicate_items = off);
