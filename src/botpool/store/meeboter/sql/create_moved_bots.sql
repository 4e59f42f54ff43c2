-- Create the table of bots that were taken off Meeboter's queue.
CREATE TABLE IF NOT EXISTS botpool_moved_bots (
    bot_id         integer PRIMARY KEY,
    priority       integer NOT NULL,
    timeout_at     timestamptz NOT NULL,
    display_name   text,
    meeting        jsonb,
    details        jsonb NOT NULL,
    moved_at       timestamptz NOT NULL DEFAULT now(),
    botpool_bot_id bigint
)
