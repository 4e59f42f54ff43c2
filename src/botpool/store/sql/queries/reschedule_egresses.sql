-- Correct the times of egresses that lie ahead, because the clock was set back.
UPDATE egresses e
SET counted_at = least(e.counted_at, botpool_now()),
    lowered_at = botpool_not_after(e.lowered_at, botpool_now()),
    probe_at = botpool_not_after(
        e.probe_at,
        botpool_now() + make_interval(secs => greatest(e.pause_s, %(longest_pause_s)s)))
WHERE e.counted_at > botpool_now()
   OR e.lowered_at > botpool_now()
   OR e.probe_at
       > botpool_now() + make_interval(secs => greatest(e.pause_s, %(longest_pause_s)s))
RETURNING e.egress
