CREATE UNIQUE INDEX idx_bot_pool_slots_assignment ON bot_pool_slots (assignment_id)
    WITH (deduplicate_items = off) WHERE assignment_id IS NOT NULL;
CREATE INDEX idx_bot_pool_slots_status
    ON bot_pool_slots (platform, status COLLATE "C", backend) WITH (deduplicate_items = off)
    WHERE status COLLATE "C" IN ('idle', 'error');
ALTER TABLE bot_pool_slots
    ADD CONSTRAINT slots_number_unique UNIQUE (platform, number) WITH (deduplicate_items = off),
    ADD CONSTRAINT slots_container_unique UNIQUE (backend, container_id)
        WITH (deduplicate_items = off);
DROP TRIGGER slots_identity_changed ON bot_pool_slots;
DROP TRIGGER slots_identity_made ON bot_pool_slots;
DROP FUNCTION botpool_keep_identity;
DROP TABLE slot_identities;
