-- List every slot with its container, for a comparison with its backend.
SELECT s.slot_name, s.backend, s.container_id, s.status
FROM bot_pool_slots s
ORDER BY s.id
