-- Slots with work to do that have no time for their next step, so that no replica takes it.
SELECT s.slot_name AS slot, s.status
FROM bot_pool_slots s
WHERE s.next_step_at IS NULL AND s.status IN ('deploying', 'releasing', 'error', 'deleting')
