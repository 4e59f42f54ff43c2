-- List the slots of a backend whose containers should run or should have stopped. Read before the
-- backend is asked: an observation counts only while the version read here is current. A releasing
-- slot under lease is left out: its stop is being sent, and must not reach the next bot.
SELECT
    s.id AS slot_id, s.slot_name, s.pool_name, s.backend, s.container_id, s.status, s.phase, s.assignment_id,
    coalesce(s.run_id, s.assignment_id) AS run_id, s.standby,
    s.deployment_id, s.deployment_status, s.start_issued_at, s.deployment_ended_at,
    s.stop_issued_at, s.delete_issued_at, s.unconfirmed_reason, s.unconfirmed_node, s.version,
    s.leads_image IS NOT NULL AS leads,
    b.id AS bot_id, b.status AS bot_status, b.correlation_id, b.leave_by, b.finishing_at,
    p.outcome, p.stop_grace_s, p.heartbeats = 'required' AS needs_heartbeats, a.running_at,
    a.observed_running_at, a.failure, a.infrastructure_fault,
    h.last_at AS last_heartbeat_at, k.status_unreliable_at, botpool_now() AS now
FROM bot_pool_slots s
JOIN backends k ON k.name = s.backend
JOIN pools p ON p.pool_name = s.pool_name
JOIN bots b ON b.id = s.assigned_bot_id
JOIN assignments a ON a.id = s.assignment_id
LEFT JOIN bot_heartbeats h ON h.bot_id = b.id AND h.assignment_id = s.assignment_id
WHERE s.backend = %(backend)s
  AND (%(container_id)s::text IS NULL OR s.container_id = %(container_id)s)
  AND (
      s.status = 'busy'
      OR (s.status = 'deploying' AND s.start_issued_at IS NOT NULL)
      OR (s.status = 'releasing'
          AND s.stop_issued_at IS NOT NULL
          AND (s.lease_until IS NULL OR s.lease_until <= botpool_now())))
  AND s.container_id IS NOT NULL
  -- Uses the index of slots with a bot.
  AND s.assigned_bot_id IS NOT NULL
