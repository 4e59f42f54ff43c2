-- Count the outcomes of both revisions of a rollout. A bot counts with its first attempt. A start is slow against
-- the p95 of the old revision's last thousand starts of its kind: hot, warm or cold. Reads only so many of the
-- pool's newest assignments.
WITH rollout AS MATERIALIZED (
    SELECT r.id, r.pool_name, r.canary_at, p.heartbeats = 'required' AS needs_agent
    FROM rollouts r
    JOIN pools p ON p.pool_name = r.pool_name
    WHERE r.id = %(rollout_id)s
), newest AS MATERIALIZED (
    SELECT
        a.id, a.bot_id, coalesce(a.run_id, a.id) AS run_id, a.run_id IS NOT NULL AS is_hot, a.attempt,
        CASE WHEN a.run_id IS NOT NULL THEN 'hot' WHEN a.warm THEN 'warm' ELSE 'cold' END AS kind,
        a.assigned_at, a.running_at, a.agent_called_at, a.ended_at, a.failure, a.infrastructure_fault
    FROM rollout
    JOIN assignments a ON a.pool_name = rollout.pool_name
    ORDER BY a.assigned_at DESC
    LIMIT %(max_assignments)s
), recent AS MATERIALIZED (
    SELECT
        n.kind,
        extract(epoch FROM coalesce(n.agent_called_at, n.running_at) - n.assigned_at)::float8 AS took_s
    FROM newest n
    LEFT JOIN rollout_runs u ON u.run_id = n.run_id
    WHERE n.running_at IS NOT NULL AND u.is_new IS NOT TRUE
    ORDER BY n.assigned_at DESC
    LIMIT 1000
), usual AS MATERIALIZED (
    SELECT
        recent.kind,
        greatest(
            percentile_cont(0.95) WITHIN GROUP (ORDER BY recent.took_s) * %(slow_factor)s::float8,
            percentile_cont(0.95) WITHIN GROUP (ORDER BY recent.took_s) + %(slow_margin_s)s::float8) AS slow_s
    FROM recent
    GROUP BY recent.kind
    HAVING count(*) >= %(min_starts)s
), begun AS MATERIALIZED (
    SELECT
        n.kind, n.assigned_at, n.running_at, n.ended_at, n.failure, n.infrastructure_fault,
        u.is_new IS TRUE AS is_new, b.failure_code, b.in_call_at, b.status, b.ended_at AS bot_ended_at,
        -- A start is over with the agent's first call, in pools that require agents: an image may run long
        -- before it. An agent without a boot id shows only later that it called.
        CASE
            WHEN n.agent_called_at IS NOT NULL THEN n.agent_called_at
            WHEN NOT rollout.needs_agent OR b.in_call_at IS NOT NULL OR b.ended_at IS NOT NULL
                OR EXISTS (
                    SELECT FROM bot_heartbeats h WHERE h.bot_id = n.bot_id AND h.assignment_id = n.id)
            THEN n.running_at END AS begun_at
    FROM rollout
    JOIN newest n ON n.assigned_at >= rollout.canary_at
    JOIN bots b ON b.id = n.bot_id
    LEFT JOIN rollout_runs u ON u.run_id = n.run_id AND u.rollout_id = rollout.id
    -- A deployment that has not chosen its revision yet counts later.
    WHERE (n.is_hot OR u.run_id IS NOT NULL) AND n.attempt = 1
), outcome AS MATERIALIZED (
    SELECT
        g.is_new,
        g.running_at IS NOT NULL AS ran,
        g.begun_at IS NOT NULL AS began,
        g.running_at IS NULL AND g.failure IS NOT NULL AND NOT g.infrastructure_fault AS failed_start,
        g.running_at IS NULL AND g.failure IS NULL AND g.ended_at IS NULL AS starts,
        g.begun_at IS NULL AND g.failure IS NULL AND g.ended_at IS NULL AS begins,
        extract(epoch FROM coalesce(g.begun_at, botpool_now()) - g.assigned_at)::float8 AS took_s,
        usual.slow_s,
        g.running_at IS NOT NULL
            AND (g.failure_code IN ('container_exited', 'heartbeat_lost')) IS TRUE
            AND g.bot_ended_at < g.running_at + make_interval(secs => %(early_exit_s)s) AS exited_early,
        g.running_at IS NOT NULL AND g.bot_ended_at IS NULL
            AND g.running_at > botpool_now() - make_interval(secs => %(early_exit_s)s) AS may_exit_early,
        g.in_call_at IS NOT NULL AS in_call,
        g.status IN ('DONE', 'FAILED') AS ended
    FROM begun g
    LEFT JOIN usual ON usual.kind = g.kind
)
SELECT
    o.is_new,
    count(*) AS assignments,
    (percentile_cont(0.5) WITHIN GROUP (ORDER BY o.took_s) FILTER (WHERE o.began) * 1000)::bigint AS p50_ms,
    (percentile_cont(0.95) WITHIN GROUP (ORDER BY o.took_s) FILTER (WHERE o.began) * 1000)::bigint AS p95_ms,
    count(*) FILTER (WHERE o.failed_start) AS failed_starts,
    count(*) FILTER (WHERE o.failed_start OR o.ran) AS starts_decided,
    count(*) FILTER (WHERE o.starts) AS starts_pending,
    count(*) FILTER (WHERE (o.began OR o.begins) AND o.took_s > o.slow_s) AS slow_starts,
    count(*) FILTER (WHERE (o.began AND o.slow_s IS NOT NULL) OR (o.begins AND o.took_s > o.slow_s)) AS speeds_decided,
    count(*) FILTER (WHERE o.begins AND o.took_s <= o.slow_s) AS speeds_pending,
    count(*) FILTER (WHERE o.exited_early) AS early_exits,
    count(*) FILTER (WHERE o.ran AND NOT o.may_exit_early) AS exits_decided,
    count(*) FILTER (WHERE o.may_exit_early) AS exits_pending,
    count(*) FILTER (WHERE o.ran AND o.ended AND NOT o.in_call) AS not_in_call,
    count(*) FILTER (WHERE o.in_call OR (o.ran AND o.ended)) AS calls_decided,
    count(*) FILTER (WHERE o.ran AND NOT o.ended AND NOT o.in_call) AS calls_pending
FROM outcome o
GROUP BY o.is_new
