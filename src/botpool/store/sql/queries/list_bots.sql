-- A page of bots, newest first. A search is text within the link, the name or the correlation id, in
-- whatever case, or the whole number of a bot. Only ASCII has a case here: all that a language knows
-- of letters would cost twice the time where nothing is found.
WITH wanted AS MATERIALIZED (
    SELECT lower(%(search)s::text COLLATE "C") AS text
)
SELECT
    b.id, b.correlation_id, b.platform, b.meeting_url, b.bot_display_name, b.status, b.priority,
    b.slot_name, b.container_id, b.attempts, b.failure_reason, b.failure_code, b.created_at,
    b.queued_at, b.assigned_at, b.started_at, h.last_at AS last_heartbeat_at, b.ended_at
FROM bots b
CROSS JOIN wanted
LEFT JOIN bot_heartbeats h ON h.bot_id = b.id
WHERE (%(status)s::text IS NULL OR b.status = %(status)s)
  AND (%(platform)s::text IS NULL OR b.platform = %(platform)s)
  -- One comparison, so that a page deep down begins at its place in the index.
  AND b.id < coalesce(%(before)s::bigint, 9223372036854775807)
  AND (
      wanted.text IS NULL
      OR b.id::text = wanted.text
      OR strpos(lower(b.bot_display_name COLLATE "C"), wanted.text) > 0
      OR strpos(lower(b.meeting_url COLLATE "C"), wanted.text) > 0
      OR strpos(lower(b.correlation_id COLLATE "C"), wanted.text) > 0)
ORDER BY b.id DESC
LIMIT %(limit)s
