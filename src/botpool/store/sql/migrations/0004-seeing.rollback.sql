DROP TABLE pool_minutes;
DROP INDEX idx_history_xid, idx_bots_created, idx_assignments_assigned, idx_assignments_slot;
