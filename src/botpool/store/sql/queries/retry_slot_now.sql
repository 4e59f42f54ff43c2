-- Make a slot's next step due now, without waiting for its backoff. Fenced.
WITH slot AS (
    UPDATE bot_pool_slots
    SET next_step_at = botpool_now(), step_attempts = 0, version = version + 1
    WHERE id = %(slot_id)s
      AND version = %(version)s
      AND status IN ('error', 'releasing', 'deleting')
    RETURNING id, slot_name
), written AS (
    INSERT INTO history (kind, slot_id, slot_name, reason, correlation_id)
    SELECT 'slot.retry_now', slot.id, slot.slot_name, %(reason)s, %(correlation_id)s
    FROM slot
)
SELECT slot.id AS slot_id FROM slot
