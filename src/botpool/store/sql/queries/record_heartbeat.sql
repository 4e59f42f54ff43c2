-- Note that an agent lives, if its assignment does, and read what it must be told.
WITH agent AS MATERIALIZED (
    SELECT a.id, a.bot_id, b.status, b.leave_by, s.status AS slot_status
    FROM assignments a
    JOIN bots b ON b.id = a.bot_id
    LEFT JOIN bot_pool_slots s ON s.assignment_id = a.id
    WHERE a.id = %(assignment_id)s AND a.bot_id = %(bot_id)s
), beat AS (
    INSERT INTO bot_heartbeats (bot_id, assignment_id, last_at)
    SELECT agent.bot_id, agent.id, botpool_now()
    FROM agent
    WHERE agent.slot_status IN ('deploying', 'busy')
    ON CONFLICT (bot_id) DO UPDATE
    SET assignment_id = EXCLUDED.assignment_id, last_at = EXCLUDED.last_at
)
SELECT agent.bot_id, agent.status, agent.leave_by, agent.slot_status FROM agent
