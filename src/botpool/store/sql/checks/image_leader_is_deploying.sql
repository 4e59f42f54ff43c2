-- Slots that lead the pull of an image but are neither deploying nor releasing.
SELECT s.slot_name AS slot, s.status, s.leads_image AS image
FROM bot_pool_slots s
WHERE s.leads_image IS NOT NULL AND s.status NOT IN ('deploying', 'releasing')
