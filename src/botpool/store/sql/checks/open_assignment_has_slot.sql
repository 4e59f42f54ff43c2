-- 7. Assignments without an end that no slot has. Read by pool, for which there is an index.
-- Meaning: 7. an assignment that has not ended has its slot
-- Remedy: Botpool never writes this state. Back up the database, report it, then check that the
--   container of that bot does not run.
-- Kind: always
SELECT a.id AS assignment, a.bot_id AS bot, a.slot_name AS slot
FROM pools p
JOIN assignments a ON a.pool_name = p.pool_name AND a.ended_at IS NULL
LEFT JOIN bot_pool_slots s ON s.id = a.slot_id AND s.assignment_id = a.id
WHERE s.id IS NULL
