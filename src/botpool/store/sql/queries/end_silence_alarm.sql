-- End a silence alarm of a pool. No row if another replica has ended it, or has raised a new one.
UPDATE pools
SET silence_alarm_at = NULL
WHERE pool_name = %(pool_name)s AND silence_alarm_at = %(raised_at)s
RETURNING pool_name
