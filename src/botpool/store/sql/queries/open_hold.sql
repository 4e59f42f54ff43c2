-- Make held slots of a pool assignable for its due bots with a reservation, and create slots for those
-- that find none, within the maximum. The caller holds the pool's lock, assigns the slots in the next
-- statement and restores the hold. Other transactions see the slots held until the commit.
WITH waiting AS MATERIALIZED (
    SELECT least(
        (
            SELECT count(*) FROM bot_pool_queue q
            WHERE q.pool_name = p.pool_name AND q.reserved_join_at IS NOT NULL AND q.timeout_at > botpool_now()),
        -- In a paced pool, no more than could start. Null is no limit.
        CASE WHEN p.egress IS NOT NULL THEN botpool_assignable_bots(p.egress) END) AS bots
    FROM pools p
    WHERE p.pool_name = %(pool_name)s AND p.drained_at IS NULL
), held AS MATERIALIZED (
    SELECT s.id
    FROM bot_pool_slots s
    WHERE s.pool_name = %(pool_name)s AND s.held AND s.status = 'idle' AND NOT s.cordoned
    ORDER BY s.last_used_at NULLS FIRST, s.number
    LIMIT (SELECT coalesce(max(waiting.bots), 0) FROM waiting)
    FOR UPDATE SKIP LOCKED
), opened AS (
    UPDATE bot_pool_slots s
    SET held = false, version = s.version + 1
    WHERE s.id = ANY (ARRAY(SELECT held.id FROM held))
), missing AS MATERIALIZED (
    SELECT
        p.pool_name, p.backend, p.image, p.max_size,
        least(
            waiting.bots - (SELECT count(*) FROM held) - (
                SELECT count(*) FROM bot_pool_slots s
                WHERE s.pool_name = p.pool_name AND s.claim_rank IS NOT NULL),
            p.max_size - (
                SELECT count(*) FROM slot_identities i WHERE i.pool_name = p.pool_name)) AS slots
    FROM pools p
    CROSS JOIN waiting
    WHERE p.pool_name = %(pool_name)s AND waiting.bots > 0
), numbers AS MATERIALIZED (
    SELECT n.number
    FROM missing m
    CROSS JOIN generate_series(1, m.max_size) AS n (number)
    WHERE NOT EXISTS (
        SELECT FROM slot_identities i WHERE i.pool_name = m.pool_name AND i.number = n.number)
    ORDER BY n.number
    LIMIT (SELECT coalesce(max(greatest(m.slots, 0)), 0) FROM missing m)
), created AS (
    INSERT INTO bot_pool_slots (pool_name, number, slot_name, backend, image)
    SELECT
        m.pool_name, numbers.number,
        'pool-' || m.pool_name || '-' || lpad(numbers.number::text, greatest(3, length(numbers.number::text)), '0'),
        m.backend, m.image
    FROM numbers, missing m
    ORDER BY numbers.number
    RETURNING id, slot_name
), written AS (
    INSERT INTO history (kind, slot_id, slot_name, to_state, reason)
    SELECT 'slot.status', created.id, created.slot_name, 'idle', %(reason)s
    FROM created
)
SELECT created.id AS slot_id, created.slot_name FROM created
