-- Create a slot for each bot that still waits after a match, within the pool's maximum, with the
-- first free numbers. An earlier statement has taken the pool's lock.
WITH pool AS MATERIALIZED (
    SELECT
        p.pool_name, p.backend, p.image, p.max_size,
        least(
            p.max_size - (SELECT count(*) FROM slot_identities i WHERE i.pool_name = p.pool_name),
            -- In a paced pool, no more slots than bots could start. Null is no limit.
            CASE WHEN p.egress IS NOT NULL THEN botpool_assignable_bots(p.egress) END) AS room
    FROM pools p
    WHERE p.pool_name = %(pool_name)s
      AND p.drained_at IS NULL
      -- Count the slots only if a bot waits.
      AND (
          SELECT e.id FROM bot_pool_queue e WHERE e.pool_name = %(pool_name)s
          ORDER BY e.priority, e.arrival LIMIT 1) IS NOT NULL
), wanted AS MATERIALIZED (
    SELECT count(*) AS slots
    FROM (
        SELECT
        FROM bot_pool_queue q
        LEFT JOIN tenants t ON t.id = q.tenant_id AND t.max_live IS NOT NULL
        -- IS TRUE keeps the plan on the index of the pool name, also when few bots wait.
        WHERE q.pool_name = (SELECT pool.pool_name FROM pool)
          AND (q.timeout_at > botpool_now()) IS TRUE
          -- A tenant with a quota needs no more slots than the quota leaves.
          AND (t.id IS NULL OR (
              SELECT count(*)
              FROM (
                  SELECT
                  FROM bot_pool_queue e
                  WHERE e.pool_name = q.pool_name AND e.tenant_id = q.tenant_id
                    AND (e.priority, e.arrival) < (q.priority, q.arrival)
                  LIMIT greatest(t.max_live - t.live, 0)
              ) AS before) < greatest(t.max_live - t.live, 0))
        LIMIT (SELECT greatest(pool.room, 0) FROM pool)
    ) AS waiting
), numbers AS MATERIALIZED (
    SELECT n.number
    FROM pool
    CROSS JOIN generate_series(1, pool.max_size) AS n (number)
    WHERE NOT EXISTS (
        SELECT FROM slot_identities i WHERE i.pool_name = %(pool_name)s AND i.number = n.number)
    ORDER BY n.number
    LIMIT (SELECT wanted.slots FROM wanted)
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
