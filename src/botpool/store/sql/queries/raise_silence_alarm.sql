-- Raise the silence alarm of a pool. No row if another replica has raised it.
WITH raised AS (
    UPDATE pools
    SET silence_alarm_at = botpool_now()
    WHERE pool_name = %(pool_name)s AND silence_alarm_at IS NULL
    RETURNING pool_name, silence_alarm_at
), written AS (
    INSERT INTO history (kind, from_state, to_state, reason, data)
    SELECT
        'pool.health', 'healthy', 'degraded', %(reason)s,
        json_build_object('platform', raised.pool_name, 'silent', %(silent)s::integer, 'live', %(live)s::integer)
    FROM raised
)
SELECT raised.silence_alarm_at FROM raised
