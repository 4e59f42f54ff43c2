-- Hold as many slots of a pool as the reserved bookings of its next hold_s need beyond the slots that
-- their bots already have: hold idle slots, then new ones within the maximum, and let go of too many.
-- The caller holds the pool's lock. Slots that an admission is claiming are skipped.
WITH pool AS MATERIALIZED (
    SELECT
        p.pool_name, p.backend, p.image, p.max_size,
        greatest(0, botpool_max_overlap(
            p.pool_name, NULL, botpool_now(), botpool_now() + make_interval(secs => t.hold_s), NULL)
            - (
                SELECT count(*)
                FROM bookings k
                JOIN bot_pool_slots s ON s.assigned_bot_id = k.bot_id
                WHERE k.pool_name = p.pool_name AND k.ended_at IS NULL AND k.reserved)) AS needed
    FROM pools p
    CROSS JOIN LATERAL botpool_booking_times(p.pool_name) AS t
    WHERE p.pool_name = %(pool_name)s AND p.drained_at IS NULL
), held AS MATERIALIZED (
    SELECT s.id, row_number() OVER (ORDER BY s.number) AS n
    FROM bot_pool_slots s
    WHERE s.pool_name = (SELECT pool.pool_name FROM pool)
      AND s.status = 'idle' AND NOT s.cordoned AND s.held
), missing AS MATERIALIZED (
    SELECT greatest(0, pool.needed - (SELECT count(*) FROM held)) AS slots FROM pool
), free AS MATERIALIZED (
    SELECT s.id
    FROM bot_pool_slots s
    WHERE s.pool_name = (SELECT pool.pool_name FROM pool) AND s.claim_rank IS NOT NULL
    ORDER BY s.claim_rank, s.last_used_at NULLS FIRST, s.number
    LIMIT (SELECT missing.slots FROM missing)
    FOR UPDATE SKIP LOCKED
), surplus AS MATERIALIZED (
    SELECT s.id
    FROM held h
    JOIN bot_pool_slots s ON s.id = h.id
    WHERE h.n > (SELECT pool.needed FROM pool)
    FOR UPDATE OF s SKIP LOCKED
), changed AS (
    UPDATE bot_pool_slots s
    SET held = NOT s.held, version = s.version + 1
    WHERE s.id = ANY (ARRAY(SELECT free.id FROM free UNION ALL SELECT surplus.id FROM surplus))
), numbers AS MATERIALIZED (
    SELECT n.number
    FROM pool
    CROSS JOIN generate_series(1, pool.max_size) AS n (number)
    WHERE (SELECT missing.slots FROM missing) > (SELECT count(*) FROM free)
      AND NOT EXISTS (
          SELECT FROM slot_identities i WHERE i.pool_name = pool.pool_name AND i.number = n.number)
    ORDER BY n.number
    LIMIT (SELECT missing.slots FROM missing) - (SELECT count(*) FROM free)
), room AS MATERIALIZED (
    -- A pool above a lowered maximum has free numbers but no room.
    SELECT n.number
    FROM numbers n
    ORDER BY n.number
    LIMIT (
        SELECT greatest(0, pool.max_size - (
            SELECT count(*) FROM slot_identities i WHERE i.pool_name = pool.pool_name)) FROM pool)
), created AS (
    INSERT INTO bot_pool_slots (pool_name, number, slot_name, backend, image, held)
    SELECT
        pool.pool_name, room.number,
        'pool-' || pool.pool_name || '-' || lpad(room.number::text, greatest(3, length(room.number::text)), '0'),
        pool.backend, pool.image, true
    FROM room, pool
    ORDER BY room.number
    RETURNING id, slot_name
), written AS (
    INSERT INTO history (kind, slot_id, slot_name, to_state, reason)
    SELECT 'slot.status', created.id, created.slot_name, 'idle', %(reason)s
    FROM created
)
SELECT
    pool.needed::integer AS needed,
    ((SELECT count(*) FROM held) + (SELECT count(*) FROM free) - (SELECT count(*) FROM surplus)
        + (SELECT count(*) FROM created))::integer AS held,
    ARRAY(SELECT created.id FROM created ORDER BY created.slot_name) AS created_ids,
    ARRAY(SELECT created.slot_name FROM created ORDER BY created.slot_name) AS created_names
FROM pool
