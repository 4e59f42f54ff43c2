-- 8. Gaps in the history of bots: a transition that does not start at the end of the previous one, or a
-- last transition that does not end at the bot's status. Checks live bots and the latest bots (null:
-- all) whose history retention has not started to delete.
-- Meaning: 8. a bot's history is a chain of transitions from PENDING to its status
-- Remedy: Botpool never writes this state. Back up the database, report it, then do not rely on the
--   history of these bots.
-- Kind: always
WITH chosen AS MATERIALIZED (
    SELECT b.id, b.status
    FROM bots b
    WHERE b.status IN (
              'PENDING', 'QUEUED', 'DEPLOYING', 'JOINING_CALL', 'IN_WAITING_ROOM', 'IN_CALL',
              'LEAVING', 'CALL_ENDED')
      AND (%(recent)s::bigint IS NULL
           OR b.created_at >= (SELECT h.at FROM history h ORDER BY h.xid, h.id LIMIT 1))
    UNION
    SELECT latest.id, latest.status
    FROM (
        SELECT b.id, b.status, b.created_at
        FROM bots b
        ORDER BY b.id DESC
        LIMIT %(recent)s::bigint
    ) AS latest
    WHERE %(recent)s::bigint IS NULL
       OR latest.created_at >= (SELECT h.at FROM history h ORDER BY h.xid, h.id LIMIT 1)
), transitions AS MATERIALIZED (
    SELECT
        h.bot_id, h.from_state, h.to_state, lag(h.to_state) OVER w AS before, lead(h.id) OVER w AS after
    FROM chosen
    JOIN history h ON h.bot_id = chosen.id
    WHERE h.kind = 'bot.status'
    WINDOW w AS (PARTITION BY h.bot_id ORDER BY h.id)
)
SELECT
    t.bot_id AS bot,
    coalesce(t.before, 'nothing') || ', then ' || coalesce(t.from_state, 'nothing') || ' → '
        || coalesce(t.to_state, 'gone') AS history
FROM transitions t
WHERE t.from_state IS DISTINCT FROM t.before
UNION ALL
SELECT chosen.id, 'ends with ' || coalesce(t.to_state, 'nothing') || ', status is ' || chosen.status
FROM chosen
LEFT JOIN transitions t ON t.bot_id = chosen.id AND t.after IS NULL
WHERE t.to_state IS DISTINCT FROM chosen.status
