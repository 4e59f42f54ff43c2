-- Record the heartbeats of agents whose assignments have not ended, and read their instructions.
-- Heartbeats have a table of their own, so that they do not wait for the locks of admissions and
-- leases; an update changes no indexed column.
WITH agent AS MATERIALIZED (
    SELECT
        a.id, a.bot_id, b.leave_by, b.finishing_at, s.status AS slot_status,
        -- The time until a scheduled bot joins, while it waits for it.
        CASE WHEN b.join_at IS NOT NULL AND b.status = 'DEPLOYING'
             THEN greatest(0, extract(epoch FROM b.join_at - botpool_now()) * 1000)::bigint END AS join_in_ms
    FROM unnest(%(assignment_ids)s::bigint[], %(bot_ids)s::bigint[])
        AS sent (assignment_id, bot_id)
    JOIN assignments a ON a.id = sent.assignment_id AND a.bot_id = sent.bot_id
    JOIN bots b ON b.id = a.bot_id
    LEFT JOIN bot_pool_slots s ON s.id = a.slot_id AND s.assignment_id = a.id
    -- The array makes the plan use the index on the id, also when there are few rows.
    WHERE a.id = ANY (%(assignment_ids)s::bigint[])
), beat AS (
    INSERT INTO bot_heartbeats (bot_id, assignment_id, last_at)
    SELECT DISTINCT ON (agent.bot_id) agent.bot_id, agent.id, botpool_now()
    FROM agent
    WHERE agent.slot_status IN ('deploying', 'busy')
    ORDER BY agent.bot_id
    ON CONFLICT (bot_id) DO UPDATE
    SET assignment_id = EXCLUDED.assignment_id, last_at = EXCLUDED.last_at
)
SELECT
    agent.id AS assignment_id, agent.bot_id, agent.leave_by, agent.finishing_at, agent.slot_status,
    agent.join_in_ms,
    EXISTS (
        SELECT FROM bot_commands c WHERE c.bot_id = agent.bot_id AND c.acknowledged_at IS NULL
    ) AS has_commands
FROM agent
