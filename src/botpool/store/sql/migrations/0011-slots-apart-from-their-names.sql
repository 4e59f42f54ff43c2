-- Less to write for the life of a bot: with the next migration, 51 index entries become 28.
-- PostgreSQL writes a row that changes an indexed column into all indexes of its table again, so
-- each index of a table that is written at every step is paid for at every step. Every statement of
-- the version before still works; until that version is exchanged, it reads all slots where it looks
-- for some by their pool, number, container or assignment.

-- By what a slot is known for as long as it is there: its number in its pool, its container at its
-- backend. Each is unique here. The slot's own row is written at every step of its bot; these change
-- when a slot or its container is made or goes, and are kept in step with it by the server itself.
CREATE TABLE slot_identities (
    slot_id      bigint PRIMARY KEY REFERENCES bot_pool_slots ON DELETE CASCADE,
    platform     text NOT NULL,
    number       integer NOT NULL,
    backend      text NOT NULL,
    container_id text,
    CONSTRAINT slots_number_unique_in_pool UNIQUE (platform, number),
    CONSTRAINT slots_container_unique_at_backend UNIQUE (backend, container_id)
);
-- What tells a release in two looks that no slot of its pool is a former backend's (see trim_pool).
CREATE INDEX idx_slot_identities_backend ON slot_identities (platform, backend);

CREATE FUNCTION botpool_keep_identity() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO slot_identities (slot_id, platform, number, backend, container_id)
        VALUES (NEW.id, NEW.platform, NEW.number, NEW.backend, NEW.container_id);
    ELSE
        UPDATE slot_identities
        SET platform = NEW.platform, number = NEW.number, backend = NEW.backend,
            container_id = NEW.container_id
        WHERE slot_id = NEW.id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'slot % is known by no name', NEW.id USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER slots_identity_made AFTER INSERT ON bot_pool_slots FOR EACH ROW
    EXECUTE FUNCTION botpool_keep_identity();
CREATE TRIGGER slots_identity_changed AFTER UPDATE OF platform, number, backend, container_id
    ON bot_pool_slots FOR EACH ROW
    WHEN ((OLD.platform, OLD.number, OLD.backend, OLD.container_id)
        IS DISTINCT FROM (NEW.platform, NEW.number, NEW.backend, NEW.container_id))
    EXECUTE FUNCTION botpool_keep_identity();

INSERT INTO slot_identities (slot_id, platform, number, backend, container_id)
SELECT s.id, s.platform, s.number, s.backend, s.container_id FROM bot_pool_slots s;

ALTER TABLE bot_pool_slots
    DROP CONSTRAINT slots_number_unique,
    DROP CONSTRAINT slots_container_unique;
DROP INDEX idx_bot_pool_slots_status;
-- A slot is found by its assignment through the assignment itself, which names it.
DROP INDEX idx_bot_pool_slots_assignment;
