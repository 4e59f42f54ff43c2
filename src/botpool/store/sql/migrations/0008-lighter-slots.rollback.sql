ALTER TABLE assignments SET (fillfactor = 85);
DO $$
DECLARE
    index_name text;
BEGIN
    FOR index_name IN SELECT i.indexname FROM pg_indexes i
        WHERE i.schemaname = current_schema AND i.tablename = 'bot_pool_slots'
    LOOP
        EXECUTE format('ALTER INDEX %I RESET (deduplicate_items)', index_name);
    END LOOP;
END $$;
ALTER TABLE bot_pool_slots ADD CONSTRAINT bot_pool_slots_slot_name_key UNIQUE (slot_name);
DROP TRIGGER slots_name ON bot_pool_slots;
DROP FUNCTION botpool_refuse_name;
