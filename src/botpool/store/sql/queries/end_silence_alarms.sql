-- The pools that are not, or no longer, silent as a whole.
UPDATE pools
SET silence_alarm_at = NULL
WHERE silence_alarm_at IS NOT NULL AND NOT pool_name = ANY(%(silent)s)
