-- Write an agent's own events into its bot's history, while its assignment lives.
WITH agent AS MATERIALIZED (
    SELECT s.id AS slot_id, s.slot_name, s.assignment_id, b.id AS bot_id, b.correlation_id
    FROM bot_pool_slots s
    JOIN bots b ON b.id = s.assigned_bot_id
    WHERE s.assignment_id = %(assignment_id)s AND s.status IN ('deploying', 'busy')
    FOR KEY SHARE OF s
)
INSERT INTO history (
    kind, bot_id, slot_id, assignment_id, slot_name, reason, correlation_id, data)
SELECT
    'agent.' || e.kind, agent.bot_id, agent.slot_id, agent.assignment_id, agent.slot_name,
    'reported by the agent', agent.correlation_id, e.data::json
FROM agent
CROSS JOIN unnest(%(kinds)s::text[], %(data)s::text[]) WITH ORDINALITY AS e (kind, data, n)
ORDER BY e.n
RETURNING id
