-- Mark commands that an agent has acknowledged, unless its assignment has ended.
UPDATE bot_commands c
SET acknowledged_at = botpool_now(), delivered_at = coalesce(c.delivered_at, botpool_now())
FROM assignments a
JOIN bot_pool_slots s ON s.id = a.slot_id AND s.assignment_id = a.id
WHERE a.id = %(assignment_id)s AND s.status IN ('deploying', 'busy')
  AND c.bot_id = a.bot_id AND c.id = ANY (%(command_ids)s::bigint[])
  AND c.acknowledged_at IS NULL
RETURNING c.id
