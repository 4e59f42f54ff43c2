-- End a silence alarm of a pool. No row if another replica has ended it, or has raised a new one.
WITH ended AS (
    UPDATE pools
    SET silence_alarm_at = NULL
    WHERE pool_name = %(pool_name)s AND silence_alarm_at = %(raised_at)s
    RETURNING pool_name
), written AS (
    INSERT INTO history (kind, from_state, to_state, reason, data)
    SELECT
        'pool.health', 'degraded', 'healthy', %(reason)s,
        json_build_object('platform', ended.pool_name)
    FROM ended
)
SELECT ended.pool_name FROM ended
