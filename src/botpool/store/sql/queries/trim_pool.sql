-- Condemn slots without a bot that the pool no longer wants: those of a former backend, and those
-- above its maximum, highest numbers first. The pool's lock is held. Slots that a newcomer is just
-- claiming are left: they come back here when they are freed.
WITH counted AS MATERIALIZED (
    SELECT
        p.backend,
        count(*) FILTER (WHERE c.status <> 'deleting') - p.max_size AS above,
        count(*) FILTER (WHERE c.status IN ('idle', 'error') AND c.backend <> p.backend) AS moved
    FROM pools p
    JOIN bot_pool_slots c ON c.platform = p.platform
    WHERE p.platform = %(platform)s
    GROUP BY p.backend, p.max_size
), surplus AS MATERIALIZED (
    SELECT
        s.id, s.slot_name, s.status,
        CASE WHEN s.backend <> counted.backend THEN 'the pool has another backend now'
             ELSE 'above the pool''s maximum' END AS reason
    FROM bot_pool_slots s, counted
    WHERE s.platform = %(platform)s AND s.status IN ('idle', 'error')
    ORDER BY s.backend = counted.backend, s.number DESC
    LIMIT (SELECT greatest(counted.above, counted.moved, 0) FROM counted)
    FOR UPDATE OF s SKIP LOCKED
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
        'slot.status', surplus.id, surplus.slot_name, surplus.status, 'deleting', surplus.reason
    FROM surplus
)
SELECT surplus.id AS slot_id, surplus.slot_name, surplus.status, surplus.reason FROM surplus
