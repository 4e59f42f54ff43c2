-- Begin the phase finishing of a running bot, because its agent says so or got the signal to leave. The
-- pool's timeout replaces the grace of a request to leave and the maximum duration. With a version, the
-- write is fenced and returns the lease; without one, the assignment alone is the fence. A bot that is
-- finishing already does not change.
WITH held AS MATERIALIZED (
    SELECT s.id, s.slot_name, s.assigned_bot_id, s.assignment_id, p.finish_timeout_s
    FROM assignments a
    JOIN bot_pool_slots s ON s.id = a.slot_id AND s.assignment_id = a.id
    JOIN pools p ON p.pool_name = s.pool_name
    WHERE a.id = %(assignment_id)s
      AND s.status = 'busy'
      AND (%(version)s::bigint IS NULL OR s.version = %(version)s)
    FOR NO KEY UPDATE OF s
), bot AS (
    UPDATE bots b
    SET finishing_at = botpool_now()
    FROM held
    WHERE b.id = held.assigned_bot_id AND b.finishing_at IS NULL AND b.ended_at IS NULL
    RETURNING b.id, b.correlation_id, b.status
), slot AS (
    UPDATE bot_pool_slots s
    SET next_step_at = botpool_now() + make_interval(secs => held.finish_timeout_s),
        step_attempts = 0,
        lease_owner = CASE WHEN %(version)s::bigint IS NULL THEN s.lease_owner END,
        lease_until = CASE WHEN %(version)s::bigint IS NULL THEN s.lease_until END,
        version = s.version + 1
    FROM held
    JOIN bot ON bot.id = held.assigned_bot_id
    WHERE s.id = held.id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id)
    SELECT
        'bot.phase', bot.id, held.id, held.assignment_id, held.slot_name, NULL, 'finishing',
        %(reason)s, bot.correlation_id
    FROM held
    JOIN bot ON bot.id = held.assigned_bot_id
)
SELECT bot.id AS bot_id FROM bot
