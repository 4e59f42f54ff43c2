-- Start the release of a busy slot whose run the infrastructure ended before the call. The bot is
-- DEPLOYING again and keeps the slot until the stop is confirmed; only then it is queued. Fenced. A
-- bot that was asked to leave, or whose agent has reported the call meanwhile, does not change. The
-- slot is locked before the bot.
WITH held AS MATERIALIZED (
    SELECT s.id, s.slot_name, s.assigned_bot_id, s.assignment_id, s.container_id
    FROM bot_pool_slots s
    WHERE s.id = %(slot_id)s
      AND s.assignment_id = %(assignment_id)s
      AND s.version = %(version)s
      AND s.status = 'busy'
    FOR UPDATE
), former AS MATERIALIZED (
    SELECT b.id, b.status, b.correlation_id
    FROM bots b
    JOIN held ON held.assigned_bot_id = b.id
    -- IS TRUE keeps the planner on the primary key, also with a plan made for a small table.
    WHERE (b.status = ANY (%(sources)s)) IS TRUE AND b.leave_by IS NULL
    FOR UPDATE OF b
), bot AS (
    UPDATE bots b SET status = 'DEPLOYING' FROM former WHERE b.id = former.id
), slot AS (
    UPDATE bot_pool_slots s
    SET status = 'releasing',
        phase = NULL,
        phase_at = botpool_now(),
        next_step_at = botpool_now(),
        step_attempts = 0,
        error_message = %(reason)s,
        error_at = botpool_now(),
        version = s.version + 1
    FROM held
    JOIN former ON former.id = held.assigned_bot_id
    WHERE s.id = held.id
), assigned AS (
    UPDATE assignments a
    SET failure = %(reason)s, failure_code = %(failure_code)s, infrastructure_fault = true
    FROM held
    JOIN former ON former.id = held.assigned_bot_id
    WHERE a.id = held.assignment_id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id)
    SELECT
        v.kind, former.id, held.id, held.assignment_id, held.slot_name, v.from_state, v.to_state,
        %(reason)s, former.correlation_id
    FROM held
    JOIN former ON former.id = held.assigned_bot_id
    CROSS JOIN LATERAL (
        VALUES
            (1, 'bot.status', former.status, 'DEPLOYING'),
            (2, 'slot.status', 'busy', 'releasing')
    ) AS v (step, kind, from_state, to_state)
    ORDER BY v.step
)
SELECT
    held.id AS slot_id, held.slot_name, held.container_id, former.id AS bot_id,
    former.correlation_id, former.status AS bot_status
FROM held
JOIN former ON former.id = held.assigned_bot_id
