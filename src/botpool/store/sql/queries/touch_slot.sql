-- Restart the time of a deploying slot whose bot sends heartbeats, and count the skip. Fenced.
WITH slot AS (
    UPDATE bot_pool_slots
    SET last_used_at = botpool_now(),
        skipped_recoveries = skipped_recoveries + 1,
        version = version + 1
    WHERE id = %(slot_id)s
      AND assignment_id = %(assignment_id)s
      AND version = %(version)s
      AND status = 'deploying'
    RETURNING id, slot_name, assigned_bot_id, assignment_id, skipped_recoveries
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, reason, correlation_id, data)
    SELECT
        'slot.skipped', slot.assigned_bot_id, slot.id, slot.assignment_id, slot.slot_name,
        %(reason)s, b.correlation_id,
        json_build_object('skipped', slot.skipped_recoveries)
    FROM slot
    JOIN bots b ON b.id = slot.assigned_bot_id
)
SELECT slot.id AS slot_id FROM slot
