-- Remove a slot whose container the backend reports gone. Fenced. The transaction holds the pool's
-- lock, because the pool may now grow.
WITH slot AS (
    DELETE FROM bot_pool_slots
    WHERE id = %(slot_id)s AND version = %(version)s AND status = 'deleting'
    RETURNING id, slot_name, container_id
), undescribed AS (
    DELETE FROM slot_descriptions d USING slot WHERE d.slot_id = slot.id
), written AS (
    INSERT INTO history (kind, slot_id, slot_name, from_state, reason)
    SELECT 'slot.status', slot.id, slot.slot_name, 'deleting', %(reason)s
    FROM slot
)
SELECT slot.id AS slot_id, slot.slot_name, slot.container_id FROM slot
