-- Less to write into indexes for the life of a bot. Every statement of the version before works as
-- it did.

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
