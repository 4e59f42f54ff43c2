-- Read a releasing slot as its release reads it, for an operator who releases it by force.
SELECT
    s.id AS slot_id, s.slot_name, s.pool_name, s.backend, s.container_id, s.status, s.assignment_id,
    s.deployment_id, s.deployment_status, s.start_issued_at, s.stop_issued_at, s.delete_issued_at,
    s.unconfirmed_reason, s.unconfirmed_node, s.run_id, s.standby, s.version,
    b.id AS bot_id, b.status AS bot_status, b.correlation_id, b.leave_by, b.finishing_at,
    p.outcome, p.stop_grace_s, a.running_at, a.failure, a.infrastructure_fault,
    k.status_unreliable_at, botpool_now() AS now
FROM bot_pool_slots s
JOIN backends k ON k.name = s.backend
JOIN pools p ON p.pool_name = s.pool_name
JOIN bots b ON b.id = s.assigned_bot_id
JOIN assignments a ON a.id = s.assignment_id
WHERE s.id = %(slot_id)s AND s.status = 'releasing'
