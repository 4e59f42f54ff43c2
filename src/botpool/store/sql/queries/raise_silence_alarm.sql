-- Raise the silence alarm of a pool unless it is raised already, and return since when it is raised.
UPDATE pools
SET silence_alarm_at = coalesce(silence_alarm_at, botpool_now())
WHERE pool_name = %(pool_name)s
RETURNING silence_alarm_at, botpool_now() AS now
