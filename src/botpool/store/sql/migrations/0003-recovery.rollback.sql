CREATE OR REPLACE FUNCTION botpool_slot_move_allowed(old text, new text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE old
        WHEN 'idle' THEN new IN ('deploying', 'deleting')
        WHEN 'deploying' THEN new IN ('busy', 'releasing')
        WHEN 'busy' THEN new = 'releasing'
        WHEN 'releasing' THEN new IN ('idle', 'error')
        WHEN 'error' THEN new IN ('idle', 'deleting')
        ELSE false
    END
$$;
ALTER TABLE bot_pool_slots DROP COLUMN doomed, DROP COLUMN delete_issued_at;
ALTER TABLE pools DROP COLUMN silence_alarm_at;
DROP TABLE strays, liveness;
DROP INDEX idx_bots_ended, idx_history_at, idx_idempotency_keys_created;
