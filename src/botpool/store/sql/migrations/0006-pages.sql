-- Pages of bots by status, by pool, by both or by neither: from one index instead of two, so that a
-- bot that changes its status has one entry less to write. No statement of an older version depends
-- on what goes.
CREATE INDEX idx_bots_pages ON bots (status, platform, id);
DROP INDEX idx_bots_status, idx_bots_platform;
