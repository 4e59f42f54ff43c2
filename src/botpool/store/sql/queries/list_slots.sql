-- A page of slots, as operators see them, by pool and number, after a position.
SELECT
    s.id, s.slot_name AS name, s.pool_name, s.number, s.status, s.phase, s.assigned_bot_id,
    s.container_id, s.image, s.last_assigned_at, s.last_released_at, s.last_used_at, s.resets,
    s.skipped_recoveries, s.error_message, s.unconfirmed_reason, s.unconfirmed_node,
    s.unconfirmed_since, s.standby, s.standby_since, s.cordoned, s.created_at
FROM pools p
CROSS JOIN LATERAL (
    SELECT
        s.id, s.slot_name, s.pool_name, s.number, s.status, s.phase, s.assigned_bot_id,
        s.container_id, s.image, s.last_assigned_at, s.last_released_at, s.last_used_at, s.resets,
        s.skipped_recoveries, s.error_message, s.unconfirmed_reason, s.unconfirmed_node,
        s.unconfirmed_since, s.standby, s.run_started_at AS standby_since, s.cordoned, s.created_at
    FROM slot_identities i
    JOIN bot_pool_slots s ON s.id = i.slot_id
    WHERE i.pool_name = p.pool_name
      AND i.number > CASE WHEN p.pool_name = %(after_pool)s THEN %(after_number)s::bigint ELSE -1 END
      AND (%(status)s::text IS NULL OR s.status = %(status)s)
    ORDER BY i.pool_name, i.number
    LIMIT %(limit)s
) AS s
WHERE p.pool_name >= %(after_pool)s::text
  AND (%(pool_name)s::text IS NULL OR p.pool_name = %(pool_name)s)
ORDER BY s.pool_name, s.number
LIMIT %(limit)s
