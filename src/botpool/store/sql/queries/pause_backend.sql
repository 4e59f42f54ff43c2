-- The backend asked to be left alone for a while.
UPDATE backends
SET paused_until = greatest(paused_until, botpool_now() + make_interval(secs => %(seconds)s))
WHERE name = %(backend)s
