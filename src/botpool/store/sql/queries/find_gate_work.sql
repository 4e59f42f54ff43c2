-- Backends at whose gate somebody waits.
SELECT DISTINCT s.backend
FROM bot_pool_slots s
WHERE s.phase IN ('waiting_for_image', 'waiting_for_start') AND s.backend = ANY(%(backends)s)
ORDER BY s.backend
