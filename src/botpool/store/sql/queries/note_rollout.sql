-- Store what a rollout that pulls its image waits for.
UPDATE rollouts r SET waits_for = %(waits_for)s
WHERE r.id = %(rollout_id)s AND r.state = 'pulling' AND r.waits_for IS DISTINCT FROM %(waits_for)s
