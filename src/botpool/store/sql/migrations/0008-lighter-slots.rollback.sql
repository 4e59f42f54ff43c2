ALTER TABLE bot_pool_slots
    ADD CONSTRAINT bot_pool_slots_status_check
        CHECK (status IN ('idle', 'deploying', 'busy', 'releasing', 'error', 'deleting')),
    ADD CONSTRAINT bot_pool_slots_phase_check
        CHECK (phase IN ('creating', 'waiting_for_image', 'waiting_for_start', 'starting')),
    ADD CONSTRAINT bot_pool_slots_number_check CHECK (number >= 1),
    ADD CONSTRAINT slots_with_bot_follow_status
        CHECK ((status IN ('deploying', 'busy', 'releasing')) = (assigned_bot_id IS NOT NULL)),
    ADD CONSTRAINT slots_assignment_follows_bot
        CHECK ((assigned_bot_id IS NULL) = (assignment_id IS NULL)),
    ADD CONSTRAINT slots_phase_while_deploying CHECK ((status = 'deploying') = (phase IS NOT NULL)),
    ADD CONSTRAINT slots_error_says_why CHECK (status <> 'error' OR error_message IS NOT NULL),
    ADD CONSTRAINT slots_lead_at_a_place CHECK (leads_image IS NULL OR place IS NOT NULL),
    ADD CONSTRAINT slots_lead_for_a_bot CHECK (leads_image IS NULL OR assigned_bot_id IS NOT NULL),
    DROP CONSTRAINT slots_are_sound;
ALTER TABLE bots
    ADD CONSTRAINT bots_status_check CHECK (status IN (
        'PENDING', 'QUEUED', 'DEPLOYING', 'JOINING_CALL', 'IN_WAITING_ROOM', 'IN_CALL',
        'LEAVING', 'CALL_ENDED', 'DONE', 'FAILED', 'CANCELLED')),
    ADD CONSTRAINT bots_failure_code_check CHECK (failure_code IN (
        'queue_timeout', 'deploy_failed', 'heartbeat_lost', 'container_exited', 'max_duration',
        'meeting_failed', 'operator', 'internal')),
    ADD CONSTRAINT bots_queue_timeout_ms_check CHECK (queue_timeout_ms >= 0),
    ADD CONSTRAINT final_bots_have_ended
        CHECK ((status IN ('DONE', 'FAILED', 'CANCELLED')) = (ended_at IS NOT NULL)),
    ADD CONSTRAINT failed_bots_say_why CHECK ((status = 'FAILED') = (failure_code IS NOT NULL)),
    DROP CONSTRAINT bots_are_sound;
DROP FUNCTION botpool_slot_is_sound, botpool_bot_is_sound;
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
DROP INDEX idx_bot_pool_slots_due;
CREATE INDEX idx_bot_pool_slots_due ON bot_pool_slots (next_step_at) WHERE next_step_at IS NOT NULL;
ALTER TABLE bot_pool_slots ADD CONSTRAINT bot_pool_slots_slot_name_key UNIQUE (slot_name);
DROP TRIGGER slots_name ON bot_pool_slots;
DROP FUNCTION botpool_refuse_name;
