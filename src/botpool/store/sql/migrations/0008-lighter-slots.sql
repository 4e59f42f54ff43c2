-- Less to write into indexes for the life of a bot, and less to read for a step. Every statement of
-- the version before still works; until that version is exchanged, its cleanup reads more rows.

-- A slot's name is its pool's and its number's, which are unique together. Seen to when a slot is
-- made, instead of by an entry in an index of names for every write of every slot.
CREATE FUNCTION botpool_refuse_name() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'slot % of % may not be called %', NEW.number, NEW.platform, NEW.slot_name
        USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER slots_name BEFORE INSERT OR UPDATE OF platform, number, slot_name
    ON bot_pool_slots FOR EACH ROW
    WHEN (NEW.slot_name !~ ('^pool-' || NEW.platform || '-0*' || NEW.number || '$'))
    EXECUTE FUNCTION botpool_refuse_name();
ALTER TABLE bot_pool_slots DROP CONSTRAINT bot_pool_slots_slot_name_key;

-- Due steps are looked for by the replicas of their backend: they do not read what waits for others.
DROP INDEX idx_bot_pool_slots_due;
CREATE INDEX idx_bot_pool_slots_due ON bot_pool_slots (backend, next_step_at)
    WHERE next_step_at IS NOT NULL;

-- Equal keys in these indexes are versions of one slot, and the old ones go within seconds: packing
-- them together only to take them apart is in vain.
DO $$
DECLARE
    index_name text;
BEGIN
    FOR index_name IN SELECT i.indexname FROM pg_indexes i
        WHERE i.schemaname = current_schema AND i.tablename = 'bot_pool_slots'
    LOOP
        EXECUTE format('ALTER INDEX %I SET (deduplicate_items = off)', index_name);
    END LOOP;
END $$;

-- Stays that began together end together: with room for all of their second versions in the page,
-- none needs new entries.
ALTER TABLE assignments SET (fillfactor = 50);

-- What must hold of a row, in one function for each table. PostgreSQL reads the text of every check
-- anew for every statement that writes to its table, which was a quarter of the work for a lone bot;
-- a function in PL/pgSQL is read once in a session. The rules are the same.
CREATE FUNCTION botpool_bot_is_sound(
    status text, failure_code text, ended_at timestamptz, queue_timeout_ms integer)
    RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN
    RETURN status IN (
            'PENDING', 'QUEUED', 'DEPLOYING', 'JOINING_CALL', 'IN_WAITING_ROOM', 'IN_CALL',
            'LEAVING', 'CALL_ENDED', 'DONE', 'FAILED', 'CANCELLED')
        AND (failure_code IS NULL OR failure_code IN (
            'queue_timeout', 'deploy_failed', 'heartbeat_lost', 'container_exited', 'max_duration',
            'meeting_failed', 'operator', 'internal'))
        AND (status IN ('DONE', 'FAILED', 'CANCELLED')) = (ended_at IS NOT NULL)
        AND (status = 'FAILED') = (failure_code IS NOT NULL)
        AND queue_timeout_ms >= 0;
END $$;
ALTER TABLE bots
    ADD CONSTRAINT bots_are_sound
        CHECK (botpool_bot_is_sound(status, failure_code, ended_at, queue_timeout_ms)),
    DROP CONSTRAINT bots_status_check,
    DROP CONSTRAINT bots_failure_code_check,
    DROP CONSTRAINT bots_queue_timeout_ms_check,
    DROP CONSTRAINT final_bots_have_ended,
    DROP CONSTRAINT failed_bots_say_why;

CREATE FUNCTION botpool_slot_is_sound(
    status text, phase text, bot bigint, assignment bigint, error_message text, leads_image text,
    place text, number integer)
    RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN
    RETURN status IN ('idle', 'deploying', 'busy', 'releasing', 'error', 'deleting')
        AND (phase IS NULL
             OR phase IN ('creating', 'waiting_for_image', 'waiting_for_start', 'starting'))
        AND (status = 'deploying') = (phase IS NOT NULL)
        AND (status IN ('deploying', 'busy', 'releasing')) = (bot IS NOT NULL)
        AND (bot IS NULL) = (assignment IS NULL)
        AND (status <> 'error' OR error_message IS NOT NULL)
        -- Who leads does so for a bot, at a place.
        AND (leads_image IS NULL OR (bot IS NOT NULL AND place IS NOT NULL))
        AND number >= 1;
END $$;
ALTER TABLE bot_pool_slots
    ADD CONSTRAINT slots_are_sound
        CHECK (botpool_slot_is_sound(
            status, phase, assigned_bot_id, assignment_id, error_message, leads_image, place,
            number)),
    DROP CONSTRAINT bot_pool_slots_status_check,
    DROP CONSTRAINT bot_pool_slots_phase_check,
    DROP CONSTRAINT bot_pool_slots_number_check,
    DROP CONSTRAINT slots_with_bot_follow_status,
    DROP CONSTRAINT slots_assignment_follows_bot,
    DROP CONSTRAINT slots_phase_while_deploying,
    DROP CONSTRAINT slots_error_says_why,
    DROP CONSTRAINT slots_lead_at_a_place,
    DROP CONSTRAINT slots_lead_for_a_bot;
