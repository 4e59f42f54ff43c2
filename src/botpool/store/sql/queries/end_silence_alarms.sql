-- End the silence alarms of all pools except those that are still silent.
UPDATE pools
SET silence_alarm_at = NULL
WHERE silence_alarm_at IS NOT NULL AND NOT pool_name = ANY(%(silent)s)
