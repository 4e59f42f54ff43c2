-- Take the rollouts whose next step is due, so that replicas do not multiply it. After a crash the step is due
-- again when the interval is over. Shows whether the pool still has the old revision, and whether a pull runs.
WITH due AS MATERIALIZED (
    SELECT r.id
    FROM rollouts r
    WHERE r.ended_at IS NULL
      AND (r.evaluate_after IS NULL OR r.evaluate_after <= botpool_now()
           OR r.evaluate_after > botpool_now() + 2 * make_interval(secs => %(interval_s)s))
    ORDER BY r.id
    FOR NO KEY UPDATE SKIP LOCKED
), leased AS (
    UPDATE rollouts r
    SET evaluate_after = botpool_now() + make_interval(secs => %(interval_s)s)
    FROM due
    WHERE r.id = due.id
    RETURNING
        r.id, r.pool_name, r.state, r.share::float8 AS share, r.bake_s, r.tolerance, r.canary_at,
        r.pull_slot_id, r.pull_run_id, r.pull_failures, r.waits_for, r.old_revision_id
)
SELECT
    l.id AS rollout_id, l.pool_name, l.state, l.share, l.bake_s, l.tolerance, l.pull_failures, l.waits_for,
    extract(epoch FROM botpool_now() - l.canary_at)::float8 AS canary_s,
    EXISTS (
        SELECT FROM bot_pool_slots s WHERE s.id = l.pull_slot_id AND s.run_id = l.pull_run_id) AS pull_runs,
    (
        SELECT q.id FROM bot_pool_queue q WHERE q.pool_name = l.pool_name
        ORDER BY q.priority, q.arrival LIMIT 1) IS NOT NULL AS bots_wait,
    (
        SELECT s.id FROM bot_pool_slots s
        WHERE s.pool_name = l.pool_name AND s.claim_rank >= 2 AND s.standby IS NULL
        ORDER BY s.claim_rank, s.last_used_at NULLS FIRST, s.number LIMIT 1) IS NOT NULL AS has_free_slot,
    EXISTS (
        SELECT FROM bot_pool_slots s
        WHERE s.pool_name = l.pool_name AND s.status = 'idle' AND s.standby IN ('starting', 'ready')
          AND NOT s.held) AS has_standby,
    EXISTS (
        SELECT FROM bot_pool_slots s
        WHERE s.pool_name = l.pool_name AND s.status = 'idle' AND s.standby = 'stopping') AS standby_stops,
    (v.image = p.image OR starts_with(v.image, p.image || '@')) AND (v.cpus, v.memory_mb) = (p.cpus, p.memory_mb)
        AS has_old_revision
FROM leased l
JOIN revisions v ON v.id = l.old_revision_id
JOIN pools p ON p.pool_name = l.pool_name
