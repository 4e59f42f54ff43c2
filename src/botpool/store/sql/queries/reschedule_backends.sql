-- Make observations due again, and shorten pauses, that a clock that was set back moved far ahead.
UPDATE backends
SET observe_after = botpool_not_after(observe_after, botpool_now()),
    paused_until = botpool_not_after(paused_until, botpool_now() + make_interval(secs => %(pause_s)s)),
    status_unreliable_at = botpool_not_after(status_unreliable_at, botpool_now())
WHERE observe_after > botpool_now() + make_interval(secs => %(observe_interval_s)s::float8 + %(tolerance_s)s)
   OR paused_until > botpool_now() + make_interval(secs => %(pause_s)s::float8 + %(tolerance_s)s)
   OR status_unreliable_at > botpool_now() + make_interval(secs => %(tolerance_s)s)
RETURNING name
