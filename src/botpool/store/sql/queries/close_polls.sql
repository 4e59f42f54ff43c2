-- Record that the polls of standbys ended and no other followed: no claim may count on them. Without an owner: the
-- polls of replicas that are not alive any more. A standby that does not poll again in time is replaced. A slot
-- that was claimed meanwhile keeps its hand-over.
WITH ended AS MATERIALIZED (
    SELECT s.id
    FROM bot_pool_slots s
    WHERE s.standby = 'ready'
      AND s.status = 'idle'
      AND CASE
          WHEN %(owner)s::text IS NOT NULL
          THEN s.poll_owner = %(owner)s
              AND (s.id, s.run_id) IN (
                  SELECT e.slot_id, e.run_id
                  FROM unnest(%(slot_ids)s::bigint[], %(run_ids)s::bigint[]) AS e (slot_id, run_id))
          ELSE NOT EXISTS (
              SELECT FROM liveness l
              WHERE l.replica = s.poll_owner
                AND l.stopped_at IS NULL
                AND l.alive_at > botpool_now() - make_interval(secs => %(alive_s)s))
      END
    ORDER BY s.id
    FOR UPDATE OF s SKIP LOCKED
)
UPDATE bot_pool_slots s
SET standby = 'starting',
    phase = 'starting',
    phase_at = botpool_now(),
    poll_owner = NULL,
    next_step_at = botpool_now() + make_interval(secs => %(lost_s)s),
    version = s.version + 1
FROM ended
WHERE s.id = ended.id
RETURNING s.id
