ALTER TABLE assignments
    ADD CONSTRAINT assignments_bot_id_fkey FOREIGN KEY (bot_id) REFERENCES bots;
ALTER TABLE bots ADD CONSTRAINT bots_platform_fkey FOREIGN KEY (platform) REFERENCES pools;
CREATE INDEX idx_history_xid ON history (xid, id);
CREATE UNIQUE INDEX history_by_number ON history (id);
ALTER TABLE history
    DROP CONSTRAINT history_pkey,
    ADD CONSTRAINT history_pkey PRIMARY KEY USING INDEX history_by_number;
DROP INDEX idx_bot_pool_slots_status;
CREATE INDEX idx_bot_pool_slots_status
    ON bot_pool_slots (platform, status COLLATE "C", backend) WITH (deduplicate_items = off);
