-- Ask a running bot to leave. The response to its next heartbeat carries the request; the slot's next
-- step enforces it after the grace, by the database's clock. A repeated request keeps the first
-- deadline. A bot that is finishing goes on, and its own deadline stays. Where the request is a signal,
-- the slot's next step sends it at once.
WITH held AS MATERIALIZED (
    SELECT s.id, s.pool_name, s.slot_name, s.assignment_id, s.assigned_bot_id, p.leave
    FROM bot_pool_slots s
    JOIN pools p ON p.pool_name = s.pool_name
    WHERE s.assigned_bot_id = %(bot_id)s AND s.status = 'busy'
    FOR UPDATE OF s
), former AS MATERIALIZED (
    SELECT b.id, b.status, b.correlation_id
    FROM bots b
    JOIN held ON held.assigned_bot_id = b.id
    -- IS TRUE keeps the planner on the primary key, also with a plan made for a small table.
    WHERE b.leave_by IS NULL AND (b.status = ANY(%(running)s)) IS TRUE
    FOR UPDATE OF b
), bot AS (
    UPDATE bots b
    SET status = CASE WHEN former.status = ANY(%(sources)s) THEN 'LEAVING' ELSE b.status END,
        leave_by = botpool_now() + make_interval(secs => %(grace_s)s)
    FROM former
    WHERE b.id = former.id
    RETURNING b.id, b.status, b.leave_by, b.finishing_at
), slot AS (
    UPDATE bot_pool_slots s
    SET next_step_at = CASE
            WHEN bot.finishing_at IS NOT NULL THEN s.next_step_at
            WHEN held.leave = 'signal' THEN botpool_now()
            ELSE least(s.next_step_at, bot.leave_by) END,
        version = s.version + 1
    FROM held
    JOIN bot ON bot.id = held.assigned_bot_id
    WHERE s.id = held.id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id)
    SELECT
        'bot.status', former.id, held.id, held.assignment_id, held.slot_name, former.status,
        bot.status, %(reason)s, former.correlation_id
    FROM former
    JOIN bot ON bot.id = former.id
    JOIN held ON held.assigned_bot_id = former.id
)
SELECT
    held.assigned_bot_id AS bot_id, held.pool_name, former.correlation_id,
    former.status AS former_status, bot.status, held.leave
FROM held
LEFT JOIN former ON former.id = held.assigned_bot_id
LEFT JOIN bot ON bot.id = former.id
