CREATE INDEX idx_bots_created ON bots (platform, created_at);
CREATE INDEX idx_bots_ended ON bots (ended_at) WHERE ended_at IS NOT NULL;
DROP FUNCTION botpool_first_bot_since;
DROP INDEX idx_history_slot;
CREATE INDEX idx_history_slot ON history (slot_id, id) WHERE slot_id IS NOT NULL;
ALTER TABLE history ADD PRIMARY KEY (id);
