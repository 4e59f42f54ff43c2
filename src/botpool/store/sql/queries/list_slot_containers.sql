-- Every slot with its container, for a comparison with what its backend has.
SELECT s.slot_name, s.backend, s.container_id, s.status
FROM bot_pool_slots s
ORDER BY s.id
