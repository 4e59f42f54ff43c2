-- Read the bots that standbys have to accept, with all that their agents need: of some slots, or of all polls that
-- a replica holds.
SELECT
    s.id AS slot_id, s.run_id, s.assignment_id, s.container_id, s.pool_name, b.id AS bot_id, b.correlation_id,
    b.traceparent, b.meeting_url, b.bot_display_name, b.bot_data
FROM bot_pool_slots s
JOIN bots b ON b.id = s.assigned_bot_id
WHERE s.phase = 'handing_over'
  AND s.poll_owner = %(owner)s
  AND (%(slot_ids)s::bigint[] IS NULL OR s.id = ANY (%(slot_ids)s::bigint[]))
