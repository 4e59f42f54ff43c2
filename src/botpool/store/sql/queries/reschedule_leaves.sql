-- Bring the deadlines of bots that were asked to leave back to the grace from now, and let bots that are
-- finishing begin now, after the clock was set back. Their slots are rescheduled first.
UPDATE bots b
SET leave_by = botpool_not_after(
        b.leave_by, botpool_now() + make_interval(secs => %(leave_grace_s)s)),
    finishing_at = botpool_not_after(b.finishing_at, botpool_now())
FROM bot_pool_slots s
WHERE s.status = 'busy'
  AND s.assigned_bot_id = b.id
  AND (b.leave_by > botpool_now() + make_interval(secs => %(leave_grace_s)s::float8 + %(tolerance_s)s)
       OR b.finishing_at > botpool_now() + make_interval(secs => %(tolerance_s)s))
RETURNING b.id
