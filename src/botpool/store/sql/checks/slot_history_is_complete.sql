-- 8. Gaps in the history of slots: a transition that does not start at the end of the previous one, or a
-- last transition that does not end at the slot's status. Checks the latest transitions (null: all).
-- Meaning: 8. a slot's history is a chain of transitions to its status
-- Remedy: Botpool never writes this state. Back up the database, report it, then do not rely on the
--   history of these slots.
-- Kind: always
WITH written AS MATERIALIZED (
    SELECT h.id, h.slot_id, h.from_state, h.to_state
    FROM history h
    WHERE h.kind = 'slot.status'
    ORDER BY h.xid DESC, h.id DESC
    LIMIT %(recent)s::bigint + %(recent)s::bigint
), transitions AS MATERIALIZED (
    SELECT
        latest.slot_id, latest.from_state, latest.to_state,
        lag(latest.to_state) OVER w AS before, lag(latest.id) OVER w IS NULL AS first
    FROM written latest
    -- Ids do not follow the order of transactions, so that rows near the end of the range may be
    -- missing. Reading twice as many rows avoids that.
    WHERE %(recent)s::bigint IS NULL
       OR latest.id > (SELECT max(w.id) FROM written w) - %(recent)s::bigint
    WINDOW w AS (PARTITION BY latest.slot_id ORDER BY latest.id)
)
SELECT
    t.slot_id AS slot,
    coalesce(t.before, 'nothing') || ', then ' || coalesce(t.from_state, 'nothing') || ' → '
        || coalesce(t.to_state, 'gone') AS history
FROM transitions t
WHERE t.from_state IS DISTINCT FROM t.before AND NOT (t.first AND %(recent)s::bigint IS NOT NULL)
UNION ALL
SELECT s.id, 'ends with ' || coalesce(last.to_state, 'nothing') || ', status is ' || s.status
FROM bot_pool_slots s
LEFT JOIN LATERAL (
    -- The last transition without a bot, or with the slot's last bot.
    SELECT ends.id, ends.to_state
    FROM (
        (
            SELECT h.id, h.to_state
            FROM history h
            WHERE h.slot_id = s.id AND h.bot_id IS NULL AND h.kind = 'slot.status'
            ORDER BY h.id DESC
            LIMIT 1
        )
        UNION ALL
        (
            SELECT h.id, h.to_state
            FROM (
                SELECT a.bot_id FROM assignments a WHERE a.slot_id = s.id
                ORDER BY a.slot_id DESC, a.id DESC LIMIT 1
            ) AS last_assignment
            JOIN history h ON h.bot_id = last_assignment.bot_id
            WHERE h.slot_id = s.id AND h.kind = 'slot.status'
            ORDER BY h.id DESC
            LIMIT 1
        )
    ) AS ends
    ORDER BY ends.id DESC
    LIMIT 1
) AS last ON true
WHERE last.to_state IS DISTINCT FROM s.status
  AND NOT (last.id IS NULL AND %(recent)s::bigint IS NOT NULL)
