-- 8. Breaks in the history of bots: a move that does not begin where the one before it ended, or a
-- last one that is not the bot's status. Of live bots and the latest (null: all) whose history
-- retention has not begun to remove.
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
), moves AS MATERIALIZED (
    SELECT
        h.bot_id, h.from_state, h.to_state, lag(h.to_state) OVER w AS before, lead(h.id) OVER w AS after
    FROM chosen
    JOIN history h ON h.bot_id = chosen.id
    WHERE h.kind = 'bot.status'
    WINDOW w AS (PARTITION BY h.bot_id ORDER BY h.id)
)
SELECT
    m.bot_id AS bot,
    coalesce(m.before, 'nothing') || ', then ' || coalesce(m.from_state, 'nothing') || ' → '
        || coalesce(m.to_state, 'gone') AS history
FROM moves m
WHERE m.from_state IS DISTINCT FROM m.before
UNION ALL
SELECT chosen.id, 'ends with ' || coalesce(m.to_state, 'nothing') || ', it is ' || chosen.status
FROM chosen
LEFT JOIN moves m ON m.bot_id = chosen.id AND m.after IS NULL
WHERE m.to_state IS DISTINCT FROM chosen.status
