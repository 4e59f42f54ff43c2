-- Slots that lead the pull of an image but start nothing.
-- Meaning: a slot that leads the pull of an image is deploying, releasing or starts as a standby
-- Remedy: Botpool never writes this state. Back up the database, report it, then delete the slot,
--   because other slots wait for its pull: 'botpool slot delete --force'.
-- Kind: always
SELECT s.slot_name AS slot, s.status, s.leads_image AS image
FROM bot_pool_slots s
WHERE s.leads_image IS NOT NULL AND s.status NOT IN ('deploying', 'releasing')
  AND s.standby IS NULL
