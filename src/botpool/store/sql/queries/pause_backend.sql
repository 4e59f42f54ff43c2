-- Send no requests to a backend for some seconds, because it asked for a pause.
UPDATE backends
SET paused_until = greatest(paused_until, botpool_now() + make_interval(secs => %(seconds)s))
WHERE name = %(backend)s
