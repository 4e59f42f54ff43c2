-- Create slots for standbys and idle floors, within the pool's maximum, with the first free numbers. An earlier statement has
-- taken the pool's lock.
WITH pool AS MATERIALIZED (
    SELECT
        p.pool_name, p.backend, p.image, p.max_size,
        p.max_size - (SELECT count(*) FROM slot_identities i WHERE i.pool_name = p.pool_name) AS room
    FROM pools p
    WHERE p.pool_name = %(pool_name)s AND p.drained_at IS NULL
), numbers AS MATERIALIZED (
    SELECT n.number
    FROM pool
    CROSS JOIN generate_series(1, pool.max_size) AS n (number)
    WHERE NOT EXISTS (
        SELECT FROM slot_identities i WHERE i.pool_name = %(pool_name)s AND i.number = n.number)
    ORDER BY n.number
    LIMIT (SELECT greatest(least(pool.room, %(slots)s::bigint), 0) FROM pool)
), created AS (
    INSERT INTO bot_pool_slots (pool_name, number, slot_name, backend, image)
    SELECT
        pool.pool_name, numbers.number,
        'pool-' || pool.pool_name || '-' || lpad(numbers.number::text, greatest(3, length(numbers.number::text)), '0'),
        pool.backend, pool.image
    FROM numbers, pool
    ORDER BY numbers.number
    RETURNING id, slot_name
), written AS (
    INSERT INTO history (kind, slot_id, slot_name, to_state, reason)
    SELECT 'slot.status', created.id, created.slot_name, 'idle', %(reason)s
    FROM created
)
SELECT created.id AS slot_id, created.slot_name FROM created
