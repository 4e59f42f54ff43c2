-- Start the new revision of a rollout without a bot in an idle slot of its pool, which pulls the image. The caller
-- holds the pool's lock. The slot gets no bot meanwhile, so no slot is taken while bots wait, and none that is
-- held for a booking. No row if no slot is free, if a pull is under way or if the rollout does not pull.
WITH rollout AS MATERIALIZED (
    SELECT r.id, r.pool_name, r.new_revision_id
    FROM rollouts r
    WHERE r.id = %(rollout_id)s
      AND r.state = 'pulling'
      AND NOT EXISTS (
          SELECT FROM bot_pool_slots s WHERE s.id = r.pull_slot_id AND s.run_id = r.pull_run_id)
      AND (
          SELECT q.id FROM bot_pool_queue q WHERE q.pool_name = r.pool_name
          ORDER BY q.priority, q.arrival LIMIT 1) IS NULL
    FOR NO KEY UPDATE
), chosen AS MATERIALIZED (
    SELECT s.id, 'pulling' AS becomes, rollout.id AS rollout_id, rollout.new_revision_id
    FROM rollout
    JOIN pools p ON p.pool_name = rollout.pool_name
    JOIN bot_pool_slots s ON s.pool_name = p.pool_name
    WHERE s.claim_rank >= 2
      AND s.standby IS NULL
      AND s.backend = p.backend
      AND NOT s.delete_requested
      AND p.drained_at IS NULL
    -- Another slot than that of a failed pull, and the slot that bots would get last.
    ORDER BY s.error_at NULLS FIRST, s.claim_rank DESC, s.last_used_at DESC NULLS LAST, s.number DESC
    LIMIT 1
    FOR UPDATE OF s SKIP LOCKED
-- include begin_standby_run.sql
), run AS (
    INSERT INTO rollout_runs (run_id, rollout_id, revision_id, is_new)
    SELECT slot.run_id, chosen.rollout_id, chosen.new_revision_id, true FROM slot, chosen
), pulling AS (
    UPDATE rollouts r
    SET pull_slot_id = slot.id, pull_run_id = slot.run_id, waits_for = %(waits_for)s
    FROM slot, chosen
    WHERE r.id = chosen.rollout_id
)
SELECT slot.id AS slot_id, slot.slot_name, slot.container_id FROM slot
