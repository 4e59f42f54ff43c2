-- List the slots that a recovery pass decides about: silent bots, deployments that take too long, slots
-- whose bot has ended, idle slots (whose containers must not run) and slots in error.
SELECT
    s.id AS slot_id, s.slot_name, s.pool_name, s.backend, s.container_id, s.status, s.phase,
    s.phase_at, s.last_used_at, s.start_issued_at, s.deployment_id, s.deployment_status,
    s.skipped_recoveries, s.resets, s.error_message, s.assignment_id,
    coalesce(s.run_id, s.assignment_id) AS run_id, s.standby, s.version,
    b.id AS bot_id, b.status AS bot_status, b.attempts, b.leave_by, b.finishing_at,
    b.correlation_id, p.outcome, p.stop_grace_s,
    a.running_at, p.heartbeats = 'required' AS needs_heartbeats,
    h.last_at AS heartbeat_at, k.status_unreliable_at, botpool_now() AS now
FROM bot_pool_slots s
JOIN pools p ON p.pool_name = s.pool_name
JOIN backends k ON k.name = s.backend
LEFT JOIN bots b ON b.id = s.assigned_bot_id
LEFT JOIN assignments a ON a.id = s.assignment_id
LEFT JOIN bot_heartbeats h ON h.bot_id = b.id AND h.assignment_id = s.assignment_id
WHERE s.backend = ANY(%(backends)s)
  AND (s.lease_until IS NULL OR s.lease_until <= botpool_now())
  AND (
      (s.status IN ('deploying', 'busy') AND b.ended_at IS NOT NULL)
      OR s.status = 'error'
      OR (s.status = 'deploying'
          AND greatest(s.phase_at, s.last_used_at)
              < botpool_now() - make_interval(secs => %(deploying_timeout_s)s)
          AND s.phase = 'starting')
      OR (s.status = 'busy'
          AND p.heartbeats = 'required'
          AND greatest(h.last_at, a.running_at)
              < botpool_now() - make_interval(secs => %(heartbeat_freshness_s)s))
      OR (s.status = 'idle' AND s.container_id IS NOT NULL AND s.standby IS NULL))
ORDER BY s.id
