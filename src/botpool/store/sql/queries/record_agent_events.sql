-- Write an agent's events to its bot's history, unless its assignment has ended.
WITH agent AS MATERIALIZED (
    SELECT s.id AS slot_id, s.slot_name, s.assignment_id, s.assigned_bot_id AS bot_id
    FROM assignments a
    JOIN bot_pool_slots s ON s.id = a.slot_id AND s.assignment_id = a.id
    WHERE a.id = %(assignment_id)s AND s.status IN ('deploying', 'busy')
    FOR KEY SHARE OF s
)
INSERT INTO history (
    kind, bot_id, slot_id, assignment_id, slot_name, reason, correlation_id, data)
SELECT
    'agent.' || e.kind, agent.bot_id, agent.slot_id, agent.assignment_id, agent.slot_name,
    %(reason)s, b.correlation_id, e.data::json
FROM agent
JOIN bots b ON b.id = agent.bot_id
CROSS JOIN unnest(%(kinds)s::text[], %(data)s::text[]) WITH ORDINALITY AS e (kind, data, n)
ORDER BY e.n
RETURNING id
