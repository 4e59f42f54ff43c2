-- The slots of a backend whose containers should run, read before the platform is asked: what is
-- seen counts only while the version read here stands.
SELECT
    s.id AS slot_id, s.slot_name, s.platform, s.container_id, s.status, s.assignment_id,
    s.start_issued_at, s.version, b.status AS bot_status, b.leave_by, botpool_now() AS now
FROM bot_pool_slots s
JOIN bots b ON b.id = s.assigned_bot_id
WHERE s.backend = %(backend)s
  AND (%(platform)s::text IS NULL OR s.platform = %(platform)s)
  AND (%(container_id)s::text IS NULL OR s.container_id = %(container_id)s)
  AND (s.status = 'busy' OR (s.status = 'deploying' AND s.start_issued_at IS NOT NULL))
  AND s.container_id IS NOT NULL
