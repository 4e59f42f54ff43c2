ALTER TABLE assignments
    ADD CONSTRAINT assignments_bot_id_fkey FOREIGN KEY (bot_id) REFERENCES bots;
ALTER TABLE bots ADD CONSTRAINT bots_platform_fkey FOREIGN KEY (platform) REFERENCES pools;
DROP INDEX idx_bot_pool_slots_status;
CREATE INDEX idx_bot_pool_slots_status
    ON bot_pool_slots (platform, status COLLATE "C", backend) WITH (deduplicate_items = off);
