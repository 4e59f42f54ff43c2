-- Record the open polls of this replica again where another replica cleared them, because this one seemed dead.
UPDATE bot_pool_slots s
SET standby = 'ready',
    phase = CASE WHEN s.status = 'idle' THEN NULL ELSE s.phase END,
    poll_owner = %(owner)s,
    next_step_at = CASE WHEN s.status = 'idle' THEN NULL ELSE s.next_step_at END,
    version = s.version + 1
FROM unnest(%(slot_ids)s::bigint[], %(run_ids)s::bigint[]) AS e (slot_id, run_id)
WHERE s.id = ANY (%(slot_ids)s::bigint[])
  AND s.id = e.slot_id
  AND s.run_id = e.run_id
  AND s.standby = 'starting'
  AND s.run_started_at IS NOT NULL
