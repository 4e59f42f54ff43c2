-- A forward move that the bot's own agent reports. The slot is locked before the bot.
WITH held AS MATERIALIZED (
    SELECT s.id, s.slot_name, s.assigned_bot_id, s.assignment_id
    FROM assignments a
    JOIN bot_pool_slots s ON s.id = a.slot_id AND s.assignment_id = a.id
    WHERE a.id = %(assignment_id)s AND s.status = 'busy'
    FOR NO KEY UPDATE OF s
), former AS MATERIALIZED (
    SELECT b.id, b.status, b.correlation_id
    FROM bots b
    JOIN held ON held.assigned_bot_id = b.id
    -- By its id, and by no other index, also where it is planned while there are few.
    WHERE (b.status = ANY(%(sources)s)) IS TRUE
    FOR UPDATE OF b
), bot AS (
    UPDATE bots b SET status = %(status)s FROM former WHERE b.id = former.id
), slot AS (
    -- Whoever read the bot's former status to judge by it must read again.
    UPDATE bot_pool_slots s
    SET version = s.version + 1
    FROM held
    JOIN former ON former.id = held.assigned_bot_id
    WHERE s.id = held.id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id)
    SELECT
        'bot.status', former.id, held.id, held.assignment_id, held.slot_name, former.status,
        %(status)s, 'reported by the agent', former.correlation_id
    FROM former
    JOIN held ON held.assigned_bot_id = former.id
)
SELECT former.status AS former_status FROM former
