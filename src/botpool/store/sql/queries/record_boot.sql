-- Record the first boot of an assignment's agent, while the assignment lasts. Returns the recorded
-- boot: this one, or the one that came before.
UPDATE assignments a
SET boot_id = coalesce(a.boot_id, %(boot_id)s),
    -- Also if an observation was earlier than this call: the slot is busy then.
    agent_called_at = coalesce(a.agent_called_at, botpool_now())
FROM bot_pool_slots s
WHERE a.id = %(assignment_id)s
  AND s.id = a.slot_id
  AND s.assignment_id = a.id
  AND s.status IN ('deploying', 'busy')
  AND s.phase IS DISTINCT FROM 'handing_over'
RETURNING a.boot_id
