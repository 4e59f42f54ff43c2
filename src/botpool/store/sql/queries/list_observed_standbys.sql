-- List the standbys of a backend whose containers should run or should have stopped. As with slots that have a bot,
-- an observation counts only while the version read here is current.
SELECT
    s.id AS slot_id, s.slot_name, s.pool_name, s.container_id, s.status, s.assignment_id, s.version, s.backend,
    s.run_id, s.standby, s.deployment_id, s.deployment_ended_at, s.start_issued_at, s.stop_issued_at,
    s.delete_issued_at, s.leads_image IS NOT NULL AS leads, k.status_unreliable_at, botpool_now() AS now
FROM bot_pool_slots s
JOIN backends k ON k.name = s.backend
WHERE s.backend = %(backend)s
  AND s.standby IS NOT NULL
  AND s.status = 'idle'
  AND (%(container_id)s::text IS NULL OR s.container_id = %(container_id)s)
  AND s.container_id IS NOT NULL
  AND CASE
      WHEN s.standby = 'stopping'
      THEN s.stop_issued_at IS NOT NULL AND (s.lease_until IS NULL OR s.lease_until <= botpool_now())
      ELSE s.start_issued_at IS NOT NULL
  END
