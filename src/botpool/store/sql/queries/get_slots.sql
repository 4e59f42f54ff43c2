-- Slots by id, as operators see them.
SELECT
    s.id, s.slot_name AS name, s.pool_name, s.number, s.status, s.phase, s.assigned_bot_id,
    s.container_id, s.image, s.last_assigned_at, s.last_released_at, s.last_used_at, s.resets,
    s.skipped_recoveries, s.error_message, s.unconfirmed_reason, s.unconfirmed_node,
    s.unconfirmed_since, s.standby, s.run_started_at AS standby_since, s.cordoned, s.created_at
FROM bot_pool_slots s
WHERE s.id = ANY (%(slot_ids)s::bigint[])
ORDER BY s.pool_name, s.number
