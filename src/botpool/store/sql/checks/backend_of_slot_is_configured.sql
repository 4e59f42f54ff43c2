-- Slots of a backend that the settings do not configure, so that no replica takes their steps.
SELECT s.slot_name AS slot, s.status, s.backend
FROM bot_pool_slots s
WHERE s.backend <> ALL(%(backends)s)
