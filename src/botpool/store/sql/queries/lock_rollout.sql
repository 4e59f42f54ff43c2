-- Lock a rollout until the transaction ends, so that runs choose their revisions one after the other.
SELECT r.id FROM rollouts r WHERE r.id = %(rollout_id)s FOR NO KEY UPDATE
