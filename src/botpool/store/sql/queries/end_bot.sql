-- A bot in a slot comes to its end, and its slot to its release. The slot is locked before the bot.
-- With a version the write is fenced by a look; without, the assignment alone is the fence.
WITH held AS MATERIALIZED (
    SELECT
        s.id, s.platform, s.slot_name, s.status, s.assigned_bot_id, s.assignment_id,
        s.container_id
    FROM bot_pool_slots s
    WHERE s.assignment_id = %(assignment_id)s
      AND s.status IN ('deploying', 'busy')
      AND (%(version)s::bigint IS NULL OR s.version = %(version)s)
    FOR UPDATE
), former AS MATERIALIZED (
    SELECT b.id, b.status, b.correlation_id
    FROM bots b
    JOIN held ON held.assigned_bot_id = b.id
    WHERE b.status = ANY(%(sources)s)
    FOR UPDATE OF b
), bot AS (
    UPDATE bots b
    SET status = %(status)s,
        failure_code = %(failure_code)s,
        failure_reason = %(failure_reason)s,
        ended_at = botpool_now()
    FROM former
    WHERE b.id = former.id
    RETURNING b.id
), slot AS (
    UPDATE bot_pool_slots s
    SET status = 'releasing',
        phase = NULL,
        phase_at = botpool_now(),
        next_step_at = botpool_now(),
        step_tries = 0,
        -- A worker in the middle of a call keeps its lease: the stop must come after that call.
        -- Only the worker that holds it, and whose call is over, gives it back here.
        lease_owner = CASE WHEN %(holds_lease)s THEN NULL ELSE s.lease_owner END,
        lease_until = CASE WHEN %(holds_lease)s THEN NULL ELSE s.lease_until END,
        version = s.version + 1
    FROM held
    JOIN bot ON bot.id = held.assigned_bot_id
    WHERE s.id = held.id
    RETURNING s.id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id)
    SELECT
        v.kind, former.id, held.id, held.assignment_id, held.slot_name, v.from_state, v.to_state,
        %(reason)s, former.correlation_id
    FROM held
    JOIN slot ON slot.id = held.id
    JOIN former ON former.id = held.assigned_bot_id
    CROSS JOIN LATERAL (
        VALUES ('bot.status', former.status, %(status)s), ('slot.status', held.status, 'releasing')
    ) AS v (kind, from_state, to_state)
)
SELECT
    held.id AS slot_id, held.platform, held.slot_name, held.container_id,
    held.status AS slot_status,
    former.id AS bot_id, former.status AS bot_status, former.correlation_id
FROM held
JOIN slot ON slot.id = held.id
JOIN former ON former.id = held.assigned_bot_id
