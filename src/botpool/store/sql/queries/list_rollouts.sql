-- Rollouts with both revisions, newest first: of one pool, or those that have not ended.
SELECT
    r.id, r.pool_name, r.share::float8 AS share, r.bake_s, r.tolerance, r.state, r.reason, r.waits_for,
    r.started_by, r.started_at, r.canary_at, r.ended_at, r.comparison, r.assigned, r.new_runs,
    o.image AS old_image, o.cpus AS old_cpus, o.memory_mb AS old_memory_mb,
    n.image AS new_image, n.cpus AS new_cpus, n.memory_mb AS new_memory_mb
FROM rollouts r
JOIN revisions o ON o.id = r.old_revision_id
JOIN revisions n ON n.id = r.new_revision_id
WHERE CASE WHEN %(pool_name)s::text IS NULL THEN r.ended_at IS NULL ELSE r.pool_name = %(pool_name)s END
ORDER BY r.id DESC
LIMIT %(limit)s
