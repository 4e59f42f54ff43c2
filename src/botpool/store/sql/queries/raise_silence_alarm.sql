-- So many of a pool are silent at once that the fault may be ours: since when it has been so.
UPDATE pools
SET silence_alarm_at = coalesce(silence_alarm_at, botpool_now())
WHERE pool_name = %(pool_name)s
RETURNING silence_alarm_at, botpool_now() AS now
