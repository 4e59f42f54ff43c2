-- Store a comparison, and count the assignments of the canary among the pool's newest ones. The count may miss the
-- newest or the oldest, which makes the share of the new revision smaller and never larger.
UPDATE rollouts r
SET comparison = %(comparison)s::json,
    waits_for = %(waits_for)s,
    assigned = greatest(r.assigned, (
        SELECT count(*)
        FROM (
            SELECT a.id, a.run_id
            FROM assignments a
            WHERE a.pool_name = r.pool_name AND a.assigned_at >= r.canary_at
            ORDER BY a.assigned_at DESC
            LIMIT %(max_assignments)s
        ) AS n
        LEFT JOIN rollout_runs u ON u.run_id = n.id AND u.rollout_id = r.id
        WHERE n.run_id IS NOT NULL OR u.run_id IS NOT NULL))
WHERE r.id = %(rollout_id)s AND r.state = 'canary'
