-- What people see: the stream of changes, the figures of the last hours, a slot's tenants.
-- These indexes are of columns that are written once: no later write of a row costs more.

-- The stream is read by the transactions that wrote, those that are over first.
CREATE INDEX idx_history_xid ON history (xid, id);

-- Arrivals by the minute; starts, the newest first; who was in a slot.
CREATE INDEX idx_bots_created ON bots (platform, created_at);
CREATE INDEX idx_assignments_assigned ON assignments (platform, assigned_at);
CREATE INDEX idx_assignments_slot ON assignments (slot_id, id);

-- How each pool stood in each minute of the last days: nothing else remembers it.
CREATE TABLE pool_minutes (
    platform    text NOT NULL REFERENCES pools ON DELETE CASCADE,
    at          timestamptz NOT NULL,
    -- The longest queue that was seen in that minute, and the slots as they were last seen.
    queue_depth integer NOT NULL,
    slots       json NOT NULL,
    PRIMARY KEY (platform, at)
);
CREATE INDEX idx_pool_minutes_at ON pool_minutes (at);
