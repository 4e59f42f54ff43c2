-- Find an assignment, or a run of a standby, by its id. A slot that has had a later run may have had this one:
-- the runs of its former standbys are not kept.
SELECT a.id FROM assignments a WHERE a.id = %(assignment_id)s
UNION ALL
SELECT s.run_id FROM bot_pool_slots s WHERE s.id = %(slot_id)s AND s.run_id >= %(assignment_id)s
LIMIT 1
