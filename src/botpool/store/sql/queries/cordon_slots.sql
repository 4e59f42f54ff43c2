-- Cordon or uncordon one slot, or all slots of a pool. Slots already in that state do not change.
WITH slot AS (
    UPDATE bot_pool_slots s
    SET cordoned = %(cordoned)s, version = s.version + 1
    WHERE s.id IN (
        SELECT o.id
        FROM bot_pool_slots o
        WHERE (%(slot_id)s::bigint IS NULL OR o.id = %(slot_id)s)
          AND (%(pool_name)s::text IS NULL OR o.pool_name = %(pool_name)s)
          AND o.cordoned <> %(cordoned)s
        ORDER BY o.id
        FOR UPDATE)
    RETURNING s.id, s.slot_name, s.assigned_bot_id, s.assignment_id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id)
    SELECT
        'slot.cordon', slot.assigned_bot_id, slot.id, slot.assignment_id, slot.slot_name,
        CASE WHEN %(cordoned)s THEN 'open' ELSE 'cordoned' END,
        CASE WHEN %(cordoned)s THEN 'cordoned' ELSE 'open' END,
        %(reason)s, %(correlation_id)s
    FROM slot
)
SELECT slot.id AS slot_id FROM slot
