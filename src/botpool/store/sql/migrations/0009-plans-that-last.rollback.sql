CREATE OR REPLACE FUNCTION botpool_check_queued() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    bot bigint := CASE WHEN TG_TABLE_NAME = 'bots' THEN (to_jsonb(NEW) ->> 'id')::bigint
                       WHEN TG_OP = 'DELETE' THEN (to_jsonb(OLD) ->> 'bot_id')::bigint
                       ELSE (to_jsonb(NEW) ->> 'bot_id')::bigint END;
    queued boolean := EXISTS (SELECT FROM bots WHERE id = bot AND status = 'QUEUED');
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
ALTER TABLE assignments RESET (autovacuum_vacuum_threshold, autovacuum_analyze_threshold);
ALTER TABLE bots RESET (autovacuum_vacuum_threshold, autovacuum_analyze_threshold);
DROP INDEX idx_bot_pool_slots_status;
CREATE INDEX idx_bot_pool_slots_status
    ON bot_pool_slots (platform, status, backend) WITH (deduplicate_items = off);
