-- Add an agent's screenshot to its bot, unless the assignment has ended or the bot has sent too many,
-- and delete all but the last three. The transaction holds the lock of the bot's data.
WITH agent AS MATERIALIZED (
    SELECT s.assigned_bot_id AS bot_id
    FROM assignments a
    JOIN bot_pool_slots s ON s.id = a.slot_id AND s.assignment_id = a.id
    WHERE a.id = %(assignment_id)s AND s.status IN ('deploying', 'busy')
    FOR KEY SHARE OF s
), next AS MATERIALIZED (
    SELECT
        agent.bot_id,
        (SELECT coalesce(max(p.number), 0) + 1 FROM bot_screenshots p WHERE p.bot_id = agent.bot_id)
            AS number
    FROM agent
), added AS (
    INSERT INTO bot_screenshots (bot_id, number, content, content_type, note, at)
    SELECT next.bot_id, next.number, %(content)s, %(content_type)s, %(note)s, botpool_now()
    FROM next
    WHERE next.number <= %(max_screenshots)s::integer
    RETURNING number, at
), old AS (
    DELETE FROM bot_screenshots p
    USING next
    WHERE p.bot_id = next.bot_id AND p.number <= next.number - %(kept)s::integer
      AND EXISTS (SELECT FROM added)
)
SELECT
    added.number, %(content_type)s::text AS content_type, length(%(content)s::bytea) AS size_bytes,
    %(note)s::text AS note, added.at
FROM added
