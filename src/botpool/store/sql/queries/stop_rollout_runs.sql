-- Begin the stop of runs without a bot that a rollout started: its pull, and its standbys of the new revision if
-- the parameter says so, also those that started after a promotion. Without a rollout, of all pulls. A slot whose
-- bot has claimed the standby keeps it.
WITH locked AS MATERIALIZED (
    SELECT s.id, s.standby
    FROM bot_pool_slots s
    WHERE s.standby IN ('starting', 'ready', 'pulling')
      AND s.status = 'idle'
      AND (s.standby = 'pulling' OR %(standbys)s)
      AND (
          (%(rollout_id)s::bigint IS NULL AND s.standby = 'pulling')
          OR EXISTS (
              SELECT FROM rollout_runs u
              WHERE u.run_id = s.run_id AND u.rollout_id = %(rollout_id)s AND u.is_new)
          -- After the promotion a run chooses no revision: it has the pool's image.
          OR EXISTS (
              SELECT
              FROM rollouts r
              JOIN revisions o ON o.id = r.old_revision_id
              JOIN revisions n ON n.id = r.new_revision_id
              WHERE r.id = %(rollout_id)s
                AND r.pool_name = s.pool_name
                AND o.image <> n.image
                AND (s.image = n.image OR starts_with(s.image, n.image || '@'))))
    ORDER BY s.id
    FOR UPDATE
-- include begin_standby_stop.sql
)
SELECT slot.id FROM slot
