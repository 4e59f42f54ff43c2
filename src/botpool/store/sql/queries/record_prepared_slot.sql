-- Store the container of an idle slot that was prepared for the pool's floor, and return the lease. Fenced.
WITH slot AS (
    UPDATE bot_pool_slots s
    SET container_id = %(container_id)s,
        gone_container_id = NULL,
        image_host = %(image_host)s,
        image = %(image)s,
        limits = %(limits)s,
        next_step_at = NULL,
        step_attempts = 0,
        lease_owner = NULL,
        lease_until = NULL,
        version = s.version + 1
    WHERE s.id = %(slot_id)s AND s.version = %(version)s AND s.status = 'idle' AND s.standby IS NULL
    RETURNING s.id, s.slot_name, s.container_id, s.image
), written AS (
    INSERT INTO history (kind, slot_id, slot_name, to_state, reason, data)
    SELECT
        'slot.prepared', slot.id, slot.slot_name, 'idle', %(reason)s,
        json_build_object('containerId', slot.container_id, 'image', slot.image)
    FROM slot
)
SELECT slot.id AS slot_id, slot.slot_name, slot.container_id FROM slot
