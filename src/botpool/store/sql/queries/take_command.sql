-- Take the first command of a kind that an agent has not received, for an agent that acknowledges
-- nothing. Concurrent calls take different commands.
WITH first AS MATERIALIZED (
    SELECT c.id
    FROM assignments a
    JOIN bot_pool_slots s ON s.id = a.slot_id AND s.assignment_id = a.id
    JOIN bot_commands c ON c.bot_id = a.bot_id AND c.acknowledged_at IS NULL
    WHERE a.id = %(assignment_id)s AND s.status = 'busy' AND c.kind = %(kind)s
    ORDER BY c.id
    LIMIT 1
    FOR UPDATE OF c SKIP LOCKED
)
UPDATE bot_commands c
SET delivered_at = botpool_now(), acknowledged_at = botpool_now()
FROM first
WHERE c.id = first.id
RETURNING c.id, c.kind, c.data
