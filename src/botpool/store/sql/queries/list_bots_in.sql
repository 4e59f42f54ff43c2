-- A page of the bots that ran in a container, or in the slot that has a name now, by their last
-- assignment there, newest first: the bot that is assigned now comes before its predecessors.
-- A search matches as in list_bots.
WITH wanted AS MATERIALIZED (
    SELECT lower(%(search)s::text COLLATE "C") AS text
), named AS MATERIALIZED (
    SELECT s.id
    FROM slot_identities i
    JOIN bot_pool_slots s ON s.id = i.slot_id
    WHERE i.pool_name = substring(%(slot_name)s::text FROM '^pool-(.+)-[0-9]+$')
      AND i.number = substring(%(slot_name)s::text FROM '-([0-9]{1,9})$')::integer
      AND s.slot_name = %(slot_name)s
), ran AS MATERIALIZED (
    SELECT a.id, a.bot_id
    FROM assignments a
    WHERE a.container_id = %(container_id)s
      AND (%(slot_name)s::text IS NULL OR a.slot_name = %(slot_name)s)
    UNION ALL
    SELECT a.id, a.bot_id
    FROM named
    JOIN assignments a ON a.slot_id = named.id
    WHERE %(container_id)s::text IS NULL
), last AS MATERIALIZED (
    SELECT ran.bot_id, max(ran.id) AS assignment_id
    FROM ran
    GROUP BY ran.bot_id
    HAVING max(ran.id) < %(before)s::bigint
)
SELECT
    b.id, b.correlation_id, b.pool_name, b.meeting_url, b.bot_display_name, b.status, b.priority,
    b.slot_name, b.container_id, b.attempts, b.failure_reason, b.failure_code,
    b.end_reason, b.artifact_count, b.created_at, b.queued_at, b.assigned_at, b.started_at,
    h.last_at AS last_heartbeat_at, b.finishing_at, b.ended_at,
    b.join_at, bk.reserved, bk.on_time_probability, bk.at_risk,
    botpool_bot_is_stalled(
        b.status, h.last_at, h.last_media_at, b.in_call_at, p.stalled_after_s) AS stalled,
    t.name AS tenant, k.id AS key_id, k.name AS key_name,
    last.assignment_id AS assignment_there
FROM wanted
CROSS JOIN last
JOIN bots b ON b.id = last.bot_id
LEFT JOIN bot_heartbeats h ON h.bot_id = b.id
LEFT JOIN pools p ON p.pool_name = b.pool_name
LEFT JOIN bookings bk ON bk.bot_id = b.id
LEFT JOIN tenants t ON t.id = b.tenant_id
LEFT JOIN api_keys k ON k.id = b.created_by
WHERE b.status = ANY (%(statuses)s::text[])
  AND (%(tenant_id)s::bigint IS NULL OR b.tenant_id = %(tenant_id)s)
  AND (%(pool_name)s::text IS NULL OR b.pool_name = %(pool_name)s)
  AND (
      wanted.text IS NULL
      OR b.id::text = wanted.text
      OR strpos(lower(b.bot_display_name COLLATE "C"), wanted.text) > 0
      OR strpos(lower(b.meeting_url COLLATE "C"), wanted.text) > 0
      OR strpos(lower(b.correlation_id COLLATE "C"), wanted.text) > 0)
ORDER BY last.assignment_id DESC
LIMIT %(limit)s
