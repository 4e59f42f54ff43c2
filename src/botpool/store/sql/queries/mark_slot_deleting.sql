-- Start the deletion of a slot without a bot, with its container. Fenced by the version if the caller
-- has one.
WITH held AS MATERIALIZED (
    SELECT s.id, s.slot_name, s.container_id, s.status
    FROM bot_pool_slots s
    WHERE s.id = %(slot_id)s
      AND s.status IN ('idle', 'error')
      AND (%(version)s::bigint IS NULL OR s.version = %(version)s)
    FOR UPDATE
), slot AS (
    UPDATE bot_pool_slots s
    SET status = 'deleting',
        phase = NULL,
        standby = NULL,
        run_id = NULL,
        run_started_at = NULL,
        poll_owner = NULL,
        leads_image = NULL,
        start_allowed_at = NULL,
        start_issued_at = NULL,
        deployment_id = NULL,
        deployment_status = NULL,
        deployment_ended_at = NULL,
        phase_at = botpool_now(),
        next_step_at = botpool_now(),
        step_attempts = 0,
        -- A worker in the middle of a reset keeps its lease: the deletion must come after its call.
        lease_owner = CASE WHEN %(holds_lease)s THEN NULL ELSE s.lease_owner END,
        lease_until = CASE WHEN %(holds_lease)s THEN NULL ELSE s.lease_until END,
        version = s.version + 1
    FROM held
    WHERE s.id = held.id
    RETURNING s.id
), written AS (
    INSERT INTO history (kind, slot_id, slot_name, from_state, to_state, reason, correlation_id)
    SELECT
        'slot.status', held.id, held.slot_name, held.status, 'deleting', %(reason)s,
        %(correlation_id)s
    FROM held
    JOIN slot ON slot.id = held.id
)
SELECT
    held.id AS slot_id, held.slot_name, held.container_id, held.status,
    %(correlation_id)s::text AS correlation_id
FROM held
JOIN slot ON slot.id = held.id
