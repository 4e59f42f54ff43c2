-- 3. Slots that are known by another number or container than they have, or not at all.
SELECT
    s.slot_name AS slot, i.number AS known_number, i.container_id AS known_container
FROM bot_pool_slots s
LEFT JOIN slot_identities i ON i.slot_id = s.id
WHERE (s.platform, s.number, s.backend, s.container_id)
    IS DISTINCT FROM (i.platform, i.number, i.backend, i.container_id)
