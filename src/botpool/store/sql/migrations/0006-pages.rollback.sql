CREATE INDEX idx_bots_status ON bots (status, id);
CREATE INDEX idx_bots_platform ON bots (platform, id);
DROP INDEX idx_bots_pages;
