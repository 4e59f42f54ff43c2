-- 3. Numbers and names that occur twice in a pool, and container ids that occur twice at a backend.
-- Meaning: 3. slot numbers and names are unique in their pool, container ids at a backend
-- Remedy: Botpool never writes this state. Back up the database, report it, then look for a missing
--   unique index and delete one of the slots: 'botpool slot delete --force'.
-- Kind: always
SELECT s.pool_name || ' number ' || s.number AS duplicate
FROM bot_pool_slots s
GROUP BY s.pool_name, s.number
HAVING count(*) > 1
UNION ALL
SELECT 'slot ' || s.slot_name
FROM bot_pool_slots s
GROUP BY s.slot_name
HAVING count(*) > 1
UNION ALL
SELECT s.backend || ' container ' || s.container_id
FROM bot_pool_slots s
WHERE s.container_id IS NOT NULL
GROUP BY s.backend, s.container_id
HAVING count(*) > 1
