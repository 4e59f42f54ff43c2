-- Bring the deadlines of bots that were asked to leave back to the grace from now, after the clock was
-- set back. Their slots are rescheduled first.
UPDATE bots b
SET leave_by = botpool_now() + make_interval(secs => %(leave_grace_s)s)
FROM bot_pool_slots s
WHERE s.status = 'busy'
  AND s.assigned_bot_id = b.id
  AND b.leave_by > botpool_now() + make_interval(secs => %(leave_grace_s)s::float8 + %(tolerance_s)s)
RETURNING b.id
