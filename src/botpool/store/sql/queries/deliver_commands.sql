-- The first commands that an agent has not acknowledged, in order, unless its assignment has ended.
WITH open AS MATERIALIZED (
    SELECT c.id, c.kind, c.data, c.delivered_at
    FROM assignments a
    JOIN bot_pool_slots s ON s.id = a.slot_id AND s.assignment_id = a.id
    JOIN bot_commands c ON c.bot_id = a.bot_id AND c.acknowledged_at IS NULL
    WHERE a.id = %(assignment_id)s AND s.status IN ('deploying', 'busy')
    ORDER BY c.id
    LIMIT %(limit)s
    FOR UPDATE OF c
), marked AS (
    UPDATE bot_commands c
    SET delivered_at = botpool_now()
    FROM open
    WHERE c.id = open.id AND open.delivered_at IS NULL
)
SELECT open.id, open.kind, open.data FROM open ORDER BY open.id
