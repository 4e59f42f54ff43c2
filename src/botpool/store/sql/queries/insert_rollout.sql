-- Start a rollout: the pool's present image and settings against new ones. The pool's lock is held. No row for an
-- unknown pool. The old revision has the digest that the pool's containers were last created from.
WITH pool AS MATERIALIZED (
    SELECT
        p.pool_name, p.cpus, p.memory_mb,
        coalesce(
            (
                SELECT s.image
                FROM bot_pool_slots s
                WHERE s.pool_name = p.pool_name
                  AND s.container_id IS NOT NULL
                  AND starts_with(s.image, p.image || '@')
                ORDER BY s.last_assigned_at DESC NULLS LAST
                LIMIT 1),
            p.image) AS image
    FROM pools p
    WHERE p.pool_name = %(pool_name)s
), old AS (
    INSERT INTO revisions (pool_name, image, cpus, memory_mb)
    SELECT pool.pool_name, pool.image, pool.cpus, pool.memory_mb FROM pool
    RETURNING id
), new AS (
    INSERT INTO revisions (pool_name, image, cpus, memory_mb)
    SELECT
        pool.pool_name, %(image)s, coalesce(%(cpus)s, pool.cpus), coalesce(%(memory_mb)s, pool.memory_mb)
    FROM pool
    RETURNING id
), rollout AS (
    INSERT INTO rollouts (
        pool_name, old_revision_id, new_revision_id, share, bake_s, tolerance, started_by, waits_for)
    SELECT
        pool.pool_name, old.id, new.id, %(share)s::numeric, %(bake_s)s, %(tolerance)s, %(started_by)s,
        %(waits_for)s
    FROM pool, old, new
    RETURNING id, pool_name
), written AS (
    INSERT INTO history (kind, to_state, reason, correlation_id, data)
    SELECT
        'pool.rollout', 'pulling', %(reason)s, %(correlation_id)s,
        json_build_object('platform', rollout.pool_name, 'rolloutId', rollout.id, 'image', %(image)s::text)
    FROM rollout
)
SELECT rollout.id FROM rollout
