-- Forget requests to backends that are counted in the future, after the clock was set back: they would
-- count against the budget until then.
DELETE FROM backend_requests
WHERE at > botpool_now() + make_interval(secs => %(tolerance_s)s)
RETURNING backend
