-- End bots that are in slots, and start the release of their slots. Locks slots before bots, in the
-- order of their ids. An end with a version is fenced by the observation that read it; without one,
-- the assignment alone is the fence. An end for silence (silent_since) applies only if no heartbeat
-- arrived since then, because heartbeats do not increase the version. Returns only changed slots.
WITH held AS MATERIALIZED (
    SELECT
        s.id, s.pool_name, s.slot_name, s.status, s.assigned_bot_id, s.assignment_id,
        s.container_id, s.version, e.new_status, e.failure_code, e.failure_reason, e.end_reason,
        e.reason, e.slot_error, e.holds_lease
    FROM unnest(
        %(assignment_ids)s::bigint[], %(versions)s::bigint[], %(statuses)s::text[],
        %(failure_codes)s::text[], %(failure_reasons)s::text[], %(end_reasons)s::text[],
        %(reasons)s::text[], %(slot_errors)s::text[],
        %(hold_leases)s::boolean[], %(silent_since)s::timestamptz[]
    ) AS e (
        assignment_id, version, new_status, failure_code, failure_reason, end_reason, reason,
        slot_error, holds_lease, silent_since)
    JOIN assignments a ON a.id = e.assignment_id
    JOIN bot_pool_slots s ON s.id = a.slot_id AND s.assignment_id = a.id
    -- Keeps the planner on the primary key, also with a plan made for a small table.
    WHERE a.id = ANY (%(assignment_ids)s::bigint[])
      AND s.status IN ('deploying', 'busy')
      AND (e.version IS NULL OR s.version = e.version)
      AND (
          e.silent_since IS NULL
          OR NOT EXISTS (
              SELECT
              FROM bot_heartbeats h
              WHERE h.bot_id = s.assigned_bot_id
                AND h.assignment_id = s.assignment_id
                AND h.last_at >= e.silent_since))
    ORDER BY s.id
    FOR UPDATE OF s
), former AS MATERIALIZED (
    SELECT
        held.id AS slot_id, held.pool_name, held.slot_name, held.status AS slot_status,
        held.assignment_id, held.container_id, held.version, held.new_status, held.failure_code,
        held.failure_reason, held.end_reason, held.reason, held.slot_error, held.holds_lease,
        b.id, b.status, b.correlation_id
    FROM held
    JOIN bots b ON b.id = held.assigned_bot_id
    WHERE botpool_bot_transition_allowed(b.status, held.new_status)
    ORDER BY b.id
    FOR UPDATE OF b
), bot AS (
    UPDATE bots b
    SET status = former.new_status,
        failure_code = former.failure_code,
        failure_reason = former.failure_reason,
        -- A bot that was asked to leave has left, unless its agent knows better.
        end_reason = coalesce(
            former.end_reason, b.end_reason,
            CASE WHEN b.leave_by IS NOT NULL AND former.new_status <> 'FAILED' THEN 'left' END),
        ended_at = botpool_now()
    FROM former
    WHERE b.id = former.id
), slot AS (
    UPDATE bot_pool_slots s
    SET status = 'releasing',
        phase = NULL,
        phase_at = botpool_now(),
        standby = NULL,
        poll_owner = NULL,
        next_step_at = botpool_now(),
        step_attempts = 0,
        error_message = former.slot_error,
        error_at = CASE WHEN former.slot_error IS NOT NULL THEN botpool_now() END,
        -- A worker in the middle of a call keeps its lease: the stop must come after that call.
        -- A worker whose call is over returns its own lease here.
        lease_owner = CASE WHEN former.holds_lease THEN NULL ELSE s.lease_owner END,
        lease_until = CASE WHEN former.holds_lease THEN NULL ELSE s.lease_until END,
        version = s.version + 1
    FROM former
    WHERE s.id = former.slot_id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id)
    SELECT
        v.kind, former.id, former.slot_id, former.assignment_id, former.slot_name, v.from_state,
        v.to_state, former.reason, former.correlation_id
    FROM former
    CROSS JOIN LATERAL (
        VALUES
            (1, 'bot.status', former.status, former.new_status),
            (2, 'slot.status', former.slot_status, 'releasing')
    ) AS v (step, kind, from_state, to_state)
    ORDER BY former.slot_id, v.step
)
SELECT
    former.slot_id, former.pool_name, former.slot_name, former.container_id, former.slot_status,
    former.assignment_id, former.id AS bot_id, former.status AS bot_status, former.correlation_id,
    former.version + 1 AS version
FROM former
