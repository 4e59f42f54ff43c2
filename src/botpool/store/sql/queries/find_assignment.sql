-- Find an assignment or the current run of a standby by its id.
SELECT a.id FROM assignments a WHERE a.id = %(assignment_id)s
UNION ALL
SELECT s.run_id FROM bot_pool_slots s WHERE s.run_id = %(assignment_id)s AND s.standby IS NOT NULL
LIMIT 1
