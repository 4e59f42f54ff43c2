-- Correct times of pools that lie in the future, because the database's clock was set back. Otherwise every standby
-- would seem to be older than the pool's settings.
UPDATE pools
SET updated_at = botpool_now()
WHERE updated_at > botpool_now() + make_interval(secs => %(tolerance_s)s)
