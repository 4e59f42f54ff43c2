-- Begin standbys in idle slots of a pool. The caller holds the pool's lock. The slots stay assignable. A slot
-- whose last start failed waits, longer after each failure. None starts while a rollout needs a slot for its pull.
WITH chosen AS MATERIALIZED (
    SELECT s.id, 'starting' AS becomes
    FROM bot_pool_slots s
    JOIN pools p ON p.pool_name = s.pool_name
    WHERE s.pool_name = %(pool_name)s
      AND s.claim_rank >= 2
      AND s.standby IS NULL
      AND s.backend = p.backend
      AND NOT s.delete_requested
      AND p.drained_at IS NULL
      AND (s.error_at IS NULL
           OR s.error_at < botpool_now() - make_interval(secs => %(backoff_s)s * power(2, least(s.resets, 6))))
      AND NOT EXISTS (
          SELECT
          FROM rollouts r
          WHERE r.pool_name = p.pool_name
            AND r.state = 'pulling'
            AND NOT EXISTS (
                SELECT FROM bot_pool_slots u WHERE u.id = r.pull_slot_id AND u.run_id = r.pull_run_id)
            -- While bots wait, the pull waits too.
            AND (
                SELECT q.id FROM bot_pool_queue q WHERE q.pool_name = r.pool_name
                ORDER BY q.priority, q.arrival LIMIT 1) IS NULL)
    ORDER BY s.claim_rank, s.last_used_at NULLS FIRST, s.number
    LIMIT %(standbys)s
    FOR UPDATE OF s SKIP LOCKED
-- include begin_standby_run.sql
)
SELECT slot.id AS slot_id, slot.slot_name, slot.container_id FROM slot
