-- Count a failed pull of a rollout. An earlier statement of the transaction has ended its run; if that statement
-- was fenced off, the slot still has the run, and nothing is counted.
UPDATE rollouts r
SET pull_failures = r.pull_failures + 1, pull_run_id = NULL, waits_for = %(reason)s, evaluate_after = NULL
WHERE r.pull_run_id = %(run_id)s
  AND r.state = 'pulling'
  AND NOT EXISTS (SELECT FROM bot_pool_slots s WHERE s.id = r.pull_slot_id AND s.run_id = r.pull_run_id)
