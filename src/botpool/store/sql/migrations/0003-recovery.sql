-- Recovery: our own outages, the alarm before many are given up at once, and the one new move.

-- When some replica last said that it lives, and when the last time that none did was over.
CREATE TABLE liveness (
    only_row     boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    seen_at      timestamptz NOT NULL,
    gap_ended_at timestamptz NOT NULL
);

-- Since when so many of a pool are silent that the fault may be ours.
ALTER TABLE pools ADD COLUMN silence_alarm_at timestamptz;

-- An operator wants this slot gone as soon as its bot has stopped.
ALTER TABLE bot_pool_slots ADD COLUMN doomed boolean NOT NULL DEFAULT false;

-- The container of this release would not stop, and was told to go: nobody gets it any more.
ALTER TABLE bot_pool_slots ADD COLUMN delete_issued_at timestamptz;

-- A slot whose container runs for nobody goes through a reset: idle → error.
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

-- Containers with our mark that belong to no slot, since when we have seen them so.
CREATE TABLE strays (
    backend       text NOT NULL,
    container_id  text NOT NULL,
    first_seen_at timestamptz NOT NULL,
    PRIMARY KEY (backend, container_id)
);

-- What retention looks for.
CREATE INDEX idx_bots_ended ON bots (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX idx_history_at ON history (at);
CREATE INDEX idx_idempotency_keys_created ON idempotency_keys (created_at);
