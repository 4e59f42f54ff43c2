-- Raise the silence alarm of a pool. No row if another replica has raised it.
UPDATE pools
SET silence_alarm_at = botpool_now()
WHERE pool_name = %(pool_name)s AND silence_alarm_at IS NULL
RETURNING silence_alarm_at
