-- List slots, as operators see them.
SELECT
    s.id, s.slot_name AS name, s.pool_name, s.status, s.phase, s.assigned_bot_id, s.container_id,
    s.image, s.last_assigned_at, s.last_released_at, s.last_used_at, s.resets,
    s.skipped_recoveries, s.error_message, s.cordoned, s.created_at
FROM bot_pool_slots s
WHERE (%(pool_name)s::text IS NULL OR s.pool_name = %(pool_name)s)
  AND (%(status)s::text IS NULL OR s.status = %(status)s)
  AND (%(slot_id)s::bigint IS NULL OR s.id = %(slot_id)s)
ORDER BY s.pool_name, s.number
