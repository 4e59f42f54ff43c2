-- 3. Slots that are known by another number or container than they have, or not at all, and names of
-- slots that are gone.
SELECT
    coalesce(s.slot_name, 'none') AS slot, i.pool_name AS known_pool, i.number AS known_number,
    i.container_id AS known_container
FROM bot_pool_slots s
FULL JOIN slot_identities i ON i.slot_id = s.id
WHERE (s.id, s.pool_name, s.number, s.backend, s.container_id)
    IS DISTINCT FROM (i.slot_id, i.pool_name, i.number, i.backend, i.container_id)
