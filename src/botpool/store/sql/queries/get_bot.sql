-- One bot, with its position in its tenant's queue while it is queued; no row if it belongs to
-- another tenant.
SELECT
    b.id, b.correlation_id, b.pool_name, b.meeting_url, b.bot_display_name, b.status, b.priority,
    b.slot_name, b.container_id, b.attempts, b.failure_reason, b.failure_code,
    b.end_reason, b.artifact_count, b.created_at, b.queued_at, b.assigned_at, b.started_at,
    h.last_at AS last_heartbeat_at, b.finishing_at, b.ended_at,
    b.join_at, bk.reserved, bk.on_time_probability, bk.at_risk,
    botpool_bot_is_stalled(
        b.status, h.last_at, h.last_media_at, b.in_call_at, p.stalled_after_s) AS stalled,
    t.name AS tenant, k.id AS key_id, k.name AS key_name, h.progress, h.last_media_at,
    CASE WHEN q.bot_id IS NOT NULL THEN (
        SELECT count(*)
        FROM bot_pool_queue ahead
        WHERE ahead.pool_name = q.pool_name
          AND ahead.tenant_id = q.tenant_id
          AND (ahead.priority, ahead.arrival) <= (q.priority, q.arrival)
    ) END AS position
FROM bots b
LEFT JOIN bot_heartbeats h ON h.bot_id = b.id
LEFT JOIN pools p ON p.pool_name = b.pool_name
LEFT JOIN bookings bk ON bk.bot_id = b.id
LEFT JOIN tenants t ON t.id = b.tenant_id
LEFT JOIN api_keys k ON k.id = b.created_by
LEFT JOIN bot_pool_queue q ON q.bot_id = b.id
WHERE b.id = %(bot_id)s
  AND (%(tenant_id)s::bigint IS NULL OR b.tenant_id = %(tenant_id)s)
