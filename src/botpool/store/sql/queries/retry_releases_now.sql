-- Make the next steps of all releasing slots due now: a shutdown does not wait for the grace of a stop.
UPDATE bot_pool_slots
SET next_step_at = botpool_now(), version = version + 1
WHERE status = 'releasing' AND next_step_at > botpool_now()
RETURNING id
