-- Room and order for what is written most often.

-- What tells a release in one look that nothing of its pool has to go (see trim_pool).
CREATE INDEX idx_bot_pool_slots_backend ON bot_pool_slots (platform, backend);
CREATE INDEX idx_bot_pool_slots_doomed ON bot_pool_slots (platform) WHERE doomed;
