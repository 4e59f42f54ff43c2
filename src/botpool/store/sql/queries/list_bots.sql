-- A page of bots, newest first: the newest of each requested pool and status, and of these the
-- newest. An index holds each pool and status in order, so the cost of a page does not depend on the
-- number of bots. A filter by tenant is for the default tenant: list_bots_of_tenant has an index for others.
-- A search matches text in the meeting link, the name or the correlation id, or a whole bot id. It
-- ignores case for ASCII letters only: comparing by the rules of a language takes twice the time.
WITH wanted AS MATERIALIZED (
    SELECT lower(%(search)s::text COLLATE "C") AS text
), newest AS MATERIALIZED (
    SELECT found.id
    FROM wanted
    CROSS JOIN pools p
    CROSS JOIN unnest(%(statuses)s::text[]) AS s (status)
    CROSS JOIN LATERAL (
        SELECT b.id
        FROM bots b
        -- A row comparison makes the plan scan a range of one index. With separate conditions, the
        -- planner may walk down all ids instead.
        WHERE (b.status, b.pool_name, b.id) < (s.status, p.pool_name, %(before)s::bigint)
          AND (b.status, b.pool_name, b.id) >= (s.status, p.pool_name, %(since)s::bigint)
          AND (%(tenant_id)s::bigint IS NULL OR b.tenant_id = %(tenant_id)s)
          AND (
              wanted.text IS NULL
              OR b.id::text = wanted.text
              OR strpos(lower(b.bot_display_name COLLATE "C"), wanted.text) > 0
              OR strpos(lower(b.meeting_url COLLATE "C"), wanted.text) > 0
              OR strpos(lower(b.correlation_id COLLATE "C"), wanted.text) > 0)
        ORDER BY b.status DESC, b.pool_name DESC, b.id DESC
        LIMIT %(limit)s
    ) AS found
    WHERE %(pool_name)s::text IS NULL OR p.pool_name = %(pool_name)s
    ORDER BY found.id DESC
    LIMIT %(limit)s
)
SELECT
    b.id, b.correlation_id, b.pool_name, b.meeting_url, b.bot_display_name, b.status, b.priority,
    b.slot_name, b.container_id, b.attempts, b.failure_reason, b.failure_code,
    b.end_reason, b.artifact_count, b.created_at, b.queued_at, b.assigned_at, b.started_at,
    h.last_at AS last_heartbeat_at, b.finishing_at, b.ended_at,
    b.join_at, bk.reserved, bk.on_time_probability, bk.at_risk,
    botpool_bot_is_stalled(
        b.status, h.last_at, h.last_media_at, b.in_call_at, p.stalled_after_s) AS stalled,
    t.name AS tenant, k.id AS key_id, k.name AS key_name
FROM newest
JOIN bots b ON b.id = newest.id
LEFT JOIN bot_heartbeats h ON h.bot_id = b.id
LEFT JOIN pools p ON p.pool_name = b.pool_name
LEFT JOIN bookings bk ON bk.bot_id = b.id
LEFT JOIN tenants t ON t.id = b.tenant_id
LEFT JOIN api_keys k ON k.id = b.created_by
ORDER BY b.id DESC
