-- Apply a status that the bot's agent reports. The statement locks the slot before the bot. CALL_ENDED
-- begins the phase finishing, unless it has begun.
WITH held AS MATERIALIZED (
    SELECT s.id, s.slot_name, s.assigned_bot_id, s.assignment_id, p.finish_timeout_s
    FROM assignments a
    JOIN bot_pool_slots s ON s.id = a.slot_id AND s.assignment_id = a.id
    JOIN pools p ON p.pool_name = s.pool_name
    WHERE a.id = %(assignment_id)s AND s.status = 'busy'
    FOR NO KEY UPDATE OF s
), former AS MATERIALIZED (
    SELECT
        b.id, b.status, b.correlation_id,
        %(status)s = 'CALL_ENDED' AND b.finishing_at IS NULL AS begins_finishing
    FROM bots b
    JOIN held ON held.assigned_bot_id = b.id
    -- IS TRUE keeps the plan on the index of the id, also when there are few bots.
    WHERE (b.status = ANY(%(sources)s)) IS TRUE
    FOR UPDATE OF b
), bot AS (
    UPDATE bots b
    SET status = %(status)s,
        end_reason = coalesce(%(end_reason)s, b.end_reason),
        in_call_at = CASE WHEN %(status)s = 'IN_CALL' THEN botpool_now() ELSE b.in_call_at END,
        finishing_at = CASE WHEN former.begins_finishing THEN botpool_now() ELSE b.finishing_at END
    FROM former
    WHERE b.id = former.id
), slot AS (
    -- A decision that read the former status fails at its fence.
    UPDATE bot_pool_slots s
    SET next_step_at = CASE
            WHEN former.begins_finishing
            THEN botpool_now() + make_interval(secs => held.finish_timeout_s)
            ELSE s.next_step_at END,
        version = s.version + 1
    FROM held
    JOIN former ON former.id = held.assigned_bot_id
    WHERE s.id = held.id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id)
    SELECT
        'bot.status', former.id, held.id, held.assignment_id, held.slot_name, former.status,
        %(status)s, %(reason)s, former.correlation_id
    FROM former
    JOIN held ON held.assigned_bot_id = former.id
)
SELECT former.status AS former_status FROM former
