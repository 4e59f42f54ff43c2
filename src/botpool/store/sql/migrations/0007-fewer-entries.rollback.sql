DROP INDEX idx_bot_pool_slots_status;
CREATE INDEX idx_bot_pool_slots_status ON bot_pool_slots (platform, status);
CREATE INDEX idx_bot_pool_slots_backend ON bot_pool_slots (platform, backend);
CREATE INDEX idx_assignments_past ON assignments (platform, ended_at) WHERE ended_at IS NOT NULL;
