-- Lease slots whose next step is due. A live lease of another replica is respected even if the slot
-- has changed since, because that replica's call may still be in progress. The search goes backend by
-- backend, so that slots of other replicas' backends are not read. With several backends, the
-- statement may lock more slots than it leases; another replica skips them until its next poll.
WITH due AS (
    SELECT first.id
    FROM unnest(%(backends)s::text[]) AS own (backend)
    CROSS JOIN LATERAL (
        SELECT s.id, s.next_step_at
        FROM bot_pool_slots s
        WHERE s.backend = own.backend
          AND s.next_step_at <= botpool_now()
          AND (s.lease_until IS NULL OR s.lease_until <= botpool_now())
        ORDER BY s.next_step_at
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ) AS first
    ORDER BY first.next_step_at
    LIMIT %(limit)s
), leased AS (
    UPDATE bot_pool_slots s
    SET lease_owner = %(owner)s,
        lease_until = botpool_now() + make_interval(secs => %(lease_s)s),
        version = s.version + 1
    FROM due
    WHERE s.id = due.id
    RETURNING
        s.id AS slot_id, s.pool_name, s.slot_name, s.backend, s.image AS created_image,
        s.limits AS created_limits, s.container_id, s.gone_container_id, s.status, s.phase,
        s.phase_at, s.assigned_bot_id, s.assignment_id, s.run_id, s.standby, s.run_started_at,
        s.deployment_id, s.deployment_status,
        s.start_allowed_at, s.start_issued_at, s.stop_issued_at, s.delete_issued_at, s.resets,
        s.recreate_container, s.error_message, s.version, s.step_attempts, s.lease_until,
        s.unconfirmed_reason, s.unconfirmed_node,
        coalesce(s.abandoned_through, 0) AS abandoned_through
)
SELECT
    leased.*, coalesce(v.image, p.image) AS image, coalesce(v.cpus, p.cpus) AS cpus,
    coalesce(v.memory_mb, p.memory_mb) AS memory_mb,
    -- A run that has not chosen its revision yet.
    CASE WHEN v.id IS NULL AND leased.run_id IS NOT NULL THEN (
        SELECT r.id FROM rollouts r
        WHERE r.pool_name = leased.pool_name AND r.ended_at IS NULL AND r.state = 'canary') END AS rollout_id,
    p.outcome, p.leave, p.finish_timeout_s, p.stop_grace_s,
    p.egress IS NOT NULL AND b.id IS NOT NULL AS is_paced, b.id AS bot_id, b.status AS bot_status,
    b.correlation_id, b.traceparent, b.meeting_url, b.bot_display_name, b.bot_data, b.attempts,
    b.leave_by, b.finishing_at, a.running_at, a.failure,
    coalesce(a.infrastructure_fault, false) AS infrastructure_fault,
    k.status_unreliable_at, botpool_newest_assignment() AS newest_assignment_id,
    botpool_now() AS now
FROM leased
JOIN backends k ON k.name = leased.backend
JOIN pools p ON p.pool_name = leased.pool_name
LEFT JOIN rollout_runs u ON u.run_id = leased.run_id
LEFT JOIN revisions v ON v.id = u.revision_id
LEFT JOIN bots b ON b.id = leased.assigned_bot_id
LEFT JOIN assignments a ON a.id = leased.assignment_id
