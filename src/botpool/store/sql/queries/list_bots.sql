-- A page of bots, newest first.
SELECT
    b.id, b.correlation_id, b.platform, b.meeting_url, b.bot_display_name, b.status, b.priority,
    b.slot_name, b.container_id, b.attempts, b.failure_reason, b.failure_code, b.created_at,
    b.queued_at, b.assigned_at, b.started_at, h.last_at AS last_heartbeat_at, b.ended_at
FROM bots b
LEFT JOIN bot_heartbeats h ON h.bot_id = b.id
WHERE (%(status)s::text IS NULL OR b.status = %(status)s)
  AND (%(platform)s::text IS NULL OR b.platform = %(platform)s)
  AND (%(before)s::bigint IS NULL OR b.id < %(before)s)
ORDER BY b.id DESC
LIMIT %(limit)s
