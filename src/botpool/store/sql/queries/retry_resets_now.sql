-- Make the resets of slots in error due now, for a recovery pass. A slot under lease does not change.
UPDATE bot_pool_slots
SET next_step_at = botpool_now(), version = version + 1
WHERE id = ANY (%(slot_ids)s::bigint[])
  AND status = 'error'
  AND (lease_until IS NULL OR lease_until <= botpool_now())
