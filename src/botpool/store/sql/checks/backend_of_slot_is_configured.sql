-- Slots of a backend that the settings do not configure, so that no replica takes their steps.
-- Meaning: the settings configure the backend of every slot
-- Remedy: Configure that backend until its slots are gone, or run the doctor with the settings of
--   'serve' (--config).
-- Kind: momentary
SELECT s.slot_name AS slot, s.status, s.backend
FROM bot_pool_slots s
WHERE s.backend <> ALL(%(backends)s)
