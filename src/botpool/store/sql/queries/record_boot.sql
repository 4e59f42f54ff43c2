-- Record the first boot of an assignment's agent, while the assignment lasts. Returns the recorded
-- boot: this one, or the one that came before.
UPDATE assignments a
SET boot_id = coalesce(a.boot_id, %(boot_id)s)
FROM bot_pool_slots s
WHERE a.id = %(assignment_id)s
  AND s.id = a.slot_id
  AND s.assignment_id = a.id
  AND s.status IN ('deploying', 'busy')
  AND s.phase IS DISTINCT FROM 'handing_over'
RETURNING a.boot_id
