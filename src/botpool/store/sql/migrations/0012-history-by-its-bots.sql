-- Less to write for the life of a bot, the other half (see the migration before). Every statement of
-- the version before still works; until that version is exchanged, it reads all of history and all
-- bots where it looks for what is old, so exchange it soon.

-- What happens is read by the transaction that wrote it, or by its bot. What befell a slot is found
-- by the bots that were in it; only what it went through without one has entries of its own.
ALTER TABLE history DROP CONSTRAINT history_pkey;
DROP INDEX idx_history_slot;
CREATE INDEX idx_history_slot ON history (slot_id, id) WHERE bot_id IS NULL AND slot_id IS NOT NULL;

-- Bots are numbered as they arrive, but for moments: the first since some time is found by halving.
CREATE FUNCTION botpool_first_bot_since(moment timestamptz) RETURNS bigint
    LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    low bigint := (SELECT min(b.id) FROM bots b);
    high bigint := (SELECT max(b.id) + 1 FROM bots b);
    middle bigint;
    arrived timestamptz;
BEGIN
    WHILE low < high LOOP
        middle := low + (high - low) / 2;
        SELECT b.id, b.created_at INTO middle, arrived
        FROM bots b WHERE b.id >= middle ORDER BY b.id LIMIT 1;
        IF arrived >= moment THEN
            high := low + (high - low) / 2;
        ELSE
            low := middle + 1;
        END IF;
    END LOOP;
    RETURN low;
END $$;
DROP INDEX idx_bots_created, idx_bots_ended;
