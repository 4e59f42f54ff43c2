-- Condemn slots without a bot above the pool's maximum, highest numbers first. The pool's lock is
-- held. Slots that a newcomer is just claiming are left: they come back here when they are freed.
WITH surplus AS MATERIALIZED (
    SELECT s.id, s.slot_name, s.status
    FROM bot_pool_slots s
    WHERE s.platform = %(platform)s AND s.status IN ('idle', 'error')
    ORDER BY s.number DESC
    LIMIT greatest(
        (
            SELECT count(*)
            FROM bot_pool_slots c
            WHERE c.platform = %(platform)s AND c.status <> 'deleting'
        ) - (SELECT p.max_size FROM pools p WHERE p.platform = %(platform)s),
        0)
    FOR UPDATE SKIP LOCKED
), slot AS (
    UPDATE bot_pool_slots s
    SET status = 'deleting',
        phase_at = botpool_now(),
        next_step_at = botpool_now(),
        step_tries = 0,
        version = s.version + 1
    FROM surplus
    WHERE s.id = surplus.id
), written AS (
    INSERT INTO history (kind, slot_id, slot_name, from_state, to_state, reason)
    SELECT
        'slot.status', surplus.id, surplus.slot_name, surplus.status, 'deleting',
        'above the pool''s maximum'
    FROM surplus
)
SELECT surplus.id AS slot_id, surplus.slot_name, surplus.status FROM surplus
