-- Drain a pool or end its drain. History gets a row only if the state changed.
WITH former AS MATERIALIZED (
    SELECT p.pool_name, p.drained_at IS NOT NULL AS drained
    FROM pools p
    WHERE p.pool_name = %(pool_name)s
    FOR NO KEY UPDATE
), pool AS (
    UPDATE pools p
    SET drained_at = CASE WHEN %(drained)s THEN coalesce(p.drained_at, botpool_now()) END,
        updated_at = botpool_now()
    FROM former
    WHERE p.pool_name = former.pool_name
    RETURNING p.pool_name
), written AS (
    INSERT INTO history (kind, from_state, to_state, reason, correlation_id, data)
    SELECT
        'pool.drain',
        CASE WHEN %(drained)s THEN 'open' ELSE 'drained' END,
        CASE WHEN %(drained)s THEN 'drained' ELSE 'open' END,
        %(reason)s, %(correlation_id)s, json_build_object('platform', former.pool_name)
    FROM former
    WHERE former.drained <> %(drained)s
)
SELECT pool.pool_name FROM pool
