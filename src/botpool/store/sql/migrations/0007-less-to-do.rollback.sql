CREATE OR REPLACE FUNCTION botpool_bot_move_allowed(old text, new text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE old
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
    END
$$;

CREATE OR REPLACE FUNCTION botpool_slot_move_allowed(old text, new text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE old
        WHEN 'idle' THEN new IN ('deploying', 'error', 'deleting')
        WHEN 'deploying' THEN new IN ('busy', 'releasing')
        WHEN 'busy' THEN new = 'releasing'
        WHEN 'releasing' THEN new IN ('idle', 'error')
        WHEN 'error' THEN new IN ('idle', 'deleting')
        ELSE false
    END
$$;
DROP INDEX idx_bot_pool_slots_status;
CREATE INDEX idx_bot_pool_slots_status ON bot_pool_slots (platform, status);
CREATE INDEX idx_bot_pool_slots_backend ON bot_pool_slots (platform, backend);
CREATE INDEX idx_assignments_past ON assignments (platform, ended_at) WHERE ended_at IS NOT NULL;
