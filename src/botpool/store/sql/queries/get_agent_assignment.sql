-- The bot of an agent, by the assignment in its token. `slot_status` is null after the assignment.
SELECT
    a.id AS assignment_id, a.container_id AS agent_container_id, a.boot_id,
    s.status AS slot_status, coalesce(s.phase = 'handing_over', false) AS handing_over, a.run_id,
    b.bot_data, b.leave_by,
    -- The time until a scheduled bot joins, negative once it is late; null if it has joined.
    CASE WHEN b.status = 'DEPLOYING'
         THEN (extract(epoch FROM b.join_at - botpool_now()) * 1000)::bigint END AS join_in_ms,
    b.id, b.correlation_id, b.pool_name, b.meeting_url, b.bot_display_name, b.status, b.priority,
    b.slot_name, b.container_id, b.attempts, b.failure_reason, b.failure_code,
    b.end_reason, b.artifact_count, b.created_at, b.queued_at, b.assigned_at, b.started_at,
    h.last_at AS last_heartbeat_at, b.finishing_at, b.ended_at,
    b.join_at, bk.reserved, bk.on_time_probability, bk.at_risk,
    botpool_bot_is_stalled(
        b.status, h.last_at, h.last_media_at, b.in_call_at, p.stalled_after_s) AS stalled,
    t.name AS tenant, k.id AS key_id, k.name AS key_name
FROM assignments a
JOIN bots b ON b.id = a.bot_id
LEFT JOIN bot_pool_slots s ON s.id = a.slot_id AND s.assignment_id = a.id
LEFT JOIN bot_heartbeats h ON h.bot_id = b.id
LEFT JOIN pools p ON p.pool_name = b.pool_name
LEFT JOIN bookings bk ON bk.bot_id = b.id
LEFT JOIN tenants t ON t.id = b.tenant_id
LEFT JOIN api_keys k ON k.id = b.created_by
WHERE a.id = %(assignment_id)s
