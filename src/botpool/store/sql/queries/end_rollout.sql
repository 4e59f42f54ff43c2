-- End a rollout in one of the states that allow it: the pool gets the new revision, or keeps or gets back the old
-- one. The pool's lock is held. No row if another replica or an operator was faster.
WITH former AS MATERIALIZED (
    SELECT r.id, r.pool_name, r.state, r.old_revision_id, r.new_revision_id
    FROM rollouts r
    WHERE r.id = %(rollout_id)s AND r.state = ANY (%(from_states)s::text[])
    FOR NO KEY UPDATE
), ended AS (
    UPDATE rollouts r
    SET state = %(state)s, reason = %(reason)s, waits_for = NULL, ended_at = botpool_now(),
        comparison = coalesce(%(comparison)s::json, r.comparison)
    FROM former
    WHERE r.id = former.id
    RETURNING r.id, r.pool_name
), pool AS (
    UPDATE pools p
    SET image = v.image, cpus = v.cpus, memory_mb = v.memory_mb, updated_at = botpool_now()
    FROM former
    JOIN revisions v
        ON v.id = CASE WHEN %(state)s = 'promoted' THEN former.new_revision_id ELSE former.old_revision_id END
    JOIN revisions n ON n.id = former.new_revision_id
    WHERE p.pool_name = former.pool_name
      -- A rollback changes the pool only after a promotion, and only if the settings did not change it since.
      AND (%(state)s = 'promoted' OR (former.state = 'promoted' AND p.image = n.image))
), written AS (
    INSERT INTO history (kind, from_state, to_state, reason, correlation_id, data)
    SELECT
        'pool.rollout', former.state, %(state)s, %(reason)s, %(correlation_id)s,
        json_build_object('platform', former.pool_name, 'rolloutId', former.id, 'image', n.image)
    FROM former
    JOIN revisions n ON n.id = former.new_revision_id
)
SELECT ended.pool_name FROM ended
