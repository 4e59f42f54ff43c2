-- Make scheduled bots whose agents never call JOINING_CALL at their time: their containers run and
-- send no reports. Locks slots before bots.
WITH slot AS MATERIALIZED (
    SELECT s.id, s.slot_name, s.assigned_bot_id, s.assignment_id
    FROM bookings k
    JOIN bot_pool_slots s ON s.assigned_bot_id = k.bot_id
    JOIN assignments a ON a.id = s.assignment_id
    WHERE k.ended_at IS NULL
      AND k.joined_at IS NULL
      AND s.status = 'busy'
      AND a.agent_called_at IS NULL
      AND EXISTS (
          SELECT FROM bots b
          WHERE b.id = k.bot_id AND b.status = 'DEPLOYING' AND b.join_at <= botpool_now())
    ORDER BY s.id
    FOR UPDATE OF s SKIP LOCKED
), bot AS (
    UPDATE bots b
    SET status = 'JOINING_CALL'
    FROM slot
    WHERE b.id = slot.assigned_bot_id AND (b.status = 'DEPLOYING') IS TRUE
    RETURNING b.id, b.pool_name, b.correlation_id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason, correlation_id)
    SELECT
        'bot.status', bot.id, slot.id, slot.assignment_id, slot.slot_name, 'DEPLOYING', 'JOINING_CALL',
        %(reason)s, bot.correlation_id
    FROM bot
    JOIN slot ON slot.assigned_bot_id = bot.id
)
SELECT bot.id AS bot_id, bot.pool_name, bot.correlation_id FROM bot
