-- Slots with work to do that have no time for their next step, so that no replica takes it.
-- Meaning: every slot with work to do has a time for its next step
-- Remedy: Botpool never writes this state. Back up the database, report it, then delete the slot:
--   'botpool slot delete --force'.
-- Kind: always
SELECT s.slot_name AS slot, s.status
FROM bot_pool_slots s
WHERE s.next_step_at IS NULL
  AND (s.status IN ('deploying', 'releasing', 'error', 'deleting')
       OR s.standby IN ('starting', 'pulling', 'stopping'))
