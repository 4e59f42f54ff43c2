-- Record why the stop of a releasing slot cannot be confirmed, or that it can again (no reason).
-- Fenced. Leaves the lease and the next step as they are.
WITH slot AS (
    UPDATE bot_pool_slots
    SET unconfirmed_reason = %(reason)s::text,
        unconfirmed_node = %(node)s::text,
        unconfirmed_since = CASE WHEN %(reason)s::text IS NOT NULL
                                 THEN coalesce(%(since)s::timestamptz, botpool_now()) END,
        version = version + 1
    WHERE id = %(slot_id)s
      AND assignment_id = %(assignment_id)s
      AND version = %(version)s
      AND status = 'releasing'
    RETURNING
        id, slot_name, assigned_bot_id, assignment_id, container_id, unconfirmed_reason,
        unconfirmed_node, unconfirmed_since, version
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id, data)
    SELECT
        'slot.stop_unconfirmed', slot.assigned_bot_id, slot.id, slot.assignment_id, slot.slot_name,
        NULL, NULL, coalesce(slot.unconfirmed_reason, %(answers_reason)s), b.correlation_id,
        CASE WHEN slot.unconfirmed_reason IS NOT NULL
             THEN json_build_object('node', slot.unconfirmed_node, 'since', slot.unconfirmed_since)
             END
    FROM slot
    JOIN bots b ON b.id = slot.assigned_bot_id
)
SELECT slot.version, slot.unconfirmed_since AS since FROM slot
