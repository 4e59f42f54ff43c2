-- Fewer entries in indexes for the life of a bot. No statement of an older version depends on it.

-- The end of a stay changes no indexed column any more, and stays within its page: who looks for
-- ends reads the newest stays by their beginning.
DROP INDEX idx_assignments_past;

-- One index of a pool's slots by their status, which also shows the backends of those without a
-- bot, instead of two.
DROP INDEX idx_bot_pool_slots_backend;
DROP INDEX idx_bot_pool_slots_status;
CREATE INDEX idx_bot_pool_slots_status ON bot_pool_slots (platform, status, backend);
