-- Let assignments that began in the future, before the clock was set back, run since now: silence counts
-- from the start of the container.
UPDATE assignments a
SET running_at = botpool_not_after(a.running_at, botpool_now()),
    observed_running_at = botpool_not_after(a.observed_running_at, botpool_now())
FROM bot_pool_slots s
WHERE s.assigned_bot_id IS NOT NULL
  AND a.id = s.assignment_id
  AND greatest(a.running_at, a.observed_running_at)
      > botpool_now() + make_interval(secs => %(tolerance_s)s)
RETURNING a.id
