-- Less to do for the life of a bot. Every statement of the version before still works; until that
-- version is exchanged, its estimates and releases read more rows than they did.

-- One index of a pool's slots by their status, which also shows the backends of those without a
-- bot, instead of two.
DROP INDEX idx_bot_pool_slots_backend;
DROP INDEX idx_bot_pool_slots_status;
CREATE INDEX idx_bot_pool_slots_status ON bot_pool_slots (platform, status, backend);

-- The end of a stay changes no indexed column any more, and needs no new entry where its page has
-- room: who looks for ends reads the newest stays by their beginning.
DROP INDEX idx_assignments_past;

-- The same moves. A function in SQL, in the condition of a trigger, is read anew for every statement
-- that fires it, which was a third of the update of a single slot; one in PL/pgSQL once in a session.
CREATE OR REPLACE FUNCTION botpool_bot_move_allowed(old text, new text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN
    RETURN CASE old
        WHEN 'PENDING' THEN new IN ('QUEUED', 'DEPLOYING', 'FAILED', 'CANCELLED')
        WHEN 'QUEUED' THEN new IN ('DEPLOYING', 'FAILED', 'CANCELLED')
        WHEN 'DEPLOYING' THEN new IN ('QUEUED', 'JOINING_CALL', 'FAILED', 'CANCELLED')
        WHEN 'JOINING_CALL' THEN new IN ('IN_WAITING_ROOM', 'IN_CALL', 'LEAVING', 'CALL_ENDED',
                                         'DONE', 'FAILED', 'CANCELLED')
        WHEN 'IN_WAITING_ROOM' THEN new IN ('IN_CALL', 'LEAVING', 'CALL_ENDED',
                                            'DONE', 'FAILED', 'CANCELLED')
        WHEN 'IN_CALL' THEN new IN ('LEAVING', 'CALL_ENDED', 'DONE', 'FAILED', 'CANCELLED')
        WHEN 'LEAVING' THEN new IN ('CALL_ENDED', 'DONE', 'FAILED', 'CANCELLED')
        WHEN 'CALL_ENDED' THEN new IN ('DONE', 'FAILED', 'CANCELLED')
        ELSE false
    END;
END $$;

CREATE OR REPLACE FUNCTION botpool_slot_move_allowed(old text, new text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN
    RETURN CASE old
        WHEN 'idle' THEN new IN ('deploying', 'error', 'deleting')
        WHEN 'deploying' THEN new IN ('busy', 'releasing')
        WHEN 'busy' THEN new = 'releasing'
        WHEN 'releasing' THEN new IN ('idle', 'error')
        WHEN 'error' THEN new IN ('idle', 'deleting')
        ELSE false
    END;
END $$;
