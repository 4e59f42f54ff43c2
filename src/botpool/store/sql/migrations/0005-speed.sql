-- Room and order for what is written most often. No statement of an older version depends on it.

-- What tells a release in one look that nothing of its pool has to go (see trim_pool).
CREATE INDEX idx_bot_pool_slots_backend ON bot_pool_slots (platform, backend);
CREATE INDEX idx_bot_pool_slots_doomed ON bot_pool_slots (platform, number) WHERE doomed;

-- A slot without a bot needs no entry among those that have one.
CREATE UNIQUE INDEX idx_bot_pool_slots_bot ON bot_pool_slots (assigned_bot_id)
    WHERE assigned_bot_id IS NOT NULL;
CREATE UNIQUE INDEX idx_bot_pool_slots_assignment ON bot_pool_slots (assignment_id)
    WHERE assignment_id IS NOT NULL;
ALTER TABLE bot_pool_slots
    DROP CONSTRAINT bot_pool_slots_assigned_bot_id_key,
    DROP CONSTRAINT bot_pool_slots_assignment_id_key;

-- Only ends are looked for.
CREATE INDEX idx_assignments_past ON assignments (platform, ended_at) WHERE ended_at IS NOT NULL;
DROP INDEX idx_assignments_ended;

-- History is numbered as it is written: what is forgotten is found by its number.
DROP INDEX idx_history_at;

-- A lease, a postponement and a heartbeat change no indexed column: with room in its page the row
-- needs no new entry in any index.
ALTER TABLE bot_pool_slots SET (fillfactor = 50);
ALTER TABLE bots SET (fillfactor = 85);
ALTER TABLE assignments SET (fillfactor = 85);

-- Small tables that are written all the time are vacuumed by what was written, not by their size;
-- large ones before a fifth of them is dead.
ALTER TABLE bot_pool_slots SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE bot_pool_queue SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE bot_heartbeats SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE bots SET (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assignments SET (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE history SET (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);
