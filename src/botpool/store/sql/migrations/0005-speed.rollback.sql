ALTER TABLE history RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor);
ALTER TABLE assignments RESET (
    fillfactor, autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor);
ALTER TABLE bots RESET (
    fillfactor, autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor);
ALTER TABLE bot_heartbeats RESET (
    autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay);
ALTER TABLE bot_pool_queue RESET (
    autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay);
ALTER TABLE bot_pool_slots RESET (
    fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold,
    autovacuum_vacuum_cost_delay);
CREATE INDEX idx_history_at ON history (at);
CREATE INDEX idx_assignments_ended ON assignments (platform, ended_at);
DROP INDEX idx_assignments_past;
ALTER TABLE bot_pool_slots
    ADD CONSTRAINT bot_pool_slots_assigned_bot_id_key UNIQUE (assigned_bot_id),
    ADD CONSTRAINT bot_pool_slots_assignment_id_key UNIQUE (assignment_id);
DROP INDEX idx_bot_pool_slots_bot, idx_bot_pool_slots_assignment, idx_bot_pool_slots_backend,
    idx_bot_pool_slots_doomed;
