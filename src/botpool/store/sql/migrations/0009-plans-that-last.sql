-- A statement is planned once for a connection, from what the server knows of the tables by then.
-- What it knew at night must do at ten o'clock. Every statement of the version before still works;
-- until that version is exchanged, it reads more slots where it looks for those to be taken down.

-- At night no slot is deploying, so the server takes an index of statuses for the shortest way to
-- one slot of a thousand that do in the morning. Only who names this collation reads the index.
DROP INDEX idx_bot_pool_slots_status;
CREATE INDEX idx_bot_pool_slots_status
    ON bot_pool_slots (platform, status COLLATE "C", backend) WITH (deduplicate_items = off);

-- Of a table that it has never seen the server expects some pages; of one that it saw with a handful
-- of rows, that reading it from end to end costs nothing. So it does not look before there are more.
ALTER TABLE bots SET (autovacuum_vacuum_threshold = 500, autovacuum_analyze_threshold = 500);
ALTER TABLE assignments SET (autovacuum_vacuum_threshold = 500, autovacuum_analyze_threshold = 500);

-- A bot is looked up by its id. By its status too, an older server would go through all that wait.
CREATE OR REPLACE FUNCTION botpool_check_queued() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    bot bigint := CASE WHEN TG_TABLE_NAME = 'bots' THEN (to_jsonb(NEW) ->> 'id')::bigint
                       WHEN TG_OP = 'DELETE' THEN (to_jsonb(OLD) ->> 'bot_id')::bigint
                       ELSE (to_jsonb(NEW) ->> 'bot_id')::bigint END;
    queued boolean := coalesce((SELECT b.status = 'QUEUED' FROM bots b WHERE b.id = bot), false);
    waits boolean := EXISTS (SELECT FROM bot_pool_queue WHERE bot_id = bot);
BEGIN
    IF queued <> waits THEN
        RAISE EXCEPTION 'bot %: QUEUED is %, queue row is %', bot, queued, waits
            USING ERRCODE = 'check_violation';
    END IF;
    IF waits AND EXISTS (SELECT FROM bot_pool_slots WHERE assigned_bot_id = bot) THEN
        RAISE EXCEPTION 'bot % is both queued and assigned', bot USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
