-- 3. Slots whose row in slot_identities is missing or differs, and rows there without a slot.
-- Meaning: 3. slot_identities has the number and the container of every slot
-- Remedy: Botpool never writes this state. Back up the database, report it, then check that triggers
--   are enabled ('session_replication_role').
-- Kind: always
SELECT
    coalesce(s.slot_name, 'none') AS slot, i.pool_name AS recorded_pool, i.number AS recorded_number,
    i.container_id AS recorded_container
FROM bot_pool_slots s
FULL JOIN slot_identities i ON i.slot_id = s.id
WHERE (s.id, s.pool_name, s.number, s.backend, s.container_id)
    IS DISTINCT FROM (i.slot_id, i.pool_name, i.number, i.backend, i.container_id)
