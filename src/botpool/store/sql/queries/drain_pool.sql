-- Close a pool to newcomers, or open it again. Told once: a pool that is so already stays as it is.
WITH former AS MATERIALIZED (
    SELECT p.platform, p.drained_at IS NOT NULL AS drained
    FROM pools p
    WHERE p.platform = %(platform)s
    FOR NO KEY UPDATE
), pool AS (
    UPDATE pools p
    SET drained_at = CASE WHEN %(drained)s THEN coalesce(p.drained_at, botpool_now()) END,
        updated_at = botpool_now()
    FROM former
    WHERE p.platform = former.platform
    RETURNING p.platform
), written AS (
    INSERT INTO history (kind, from_state, to_state, reason, correlation_id, data)
    SELECT
        'pool.drain',
        CASE WHEN %(drained)s THEN 'open' ELSE 'drained' END,
        CASE WHEN %(drained)s THEN 'drained' ELSE 'open' END,
        %(reason)s, %(correlation_id)s, json_build_object('platform', former.platform)
    FROM former
    WHERE former.drained <> %(drained)s
)
SELECT pool.platform FROM pool
