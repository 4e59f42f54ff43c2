-- 8. Breaks in the history of slots: a move that does not begin where the one before it ended, or a
-- last one that is not the slot's status. Of the latest moves (null: all); what retention has
-- removed is not missed then.
WITH written AS MATERIALIZED (
    SELECT h.id, h.slot_id, h.from_state, h.to_state
    FROM history h
    WHERE h.kind = 'slot.status'
    ORDER BY h.xid DESC, h.id DESC
    LIMIT %(recent)s::bigint + %(recent)s::bigint
), moves AS MATERIALIZED (
    SELECT
        latest.slot_id, latest.from_state, latest.to_state,
        lag(latest.to_state) OVER w AS before, lag(latest.id) OVER w IS NULL AS first
    FROM written latest
    -- Numbers are not given out in the order of transactions: near the end of what was read, one
    -- may be missing. Not where twice as many were read.
    WHERE %(recent)s::bigint IS NULL
       OR latest.id > (SELECT max(w.id) FROM written w) - %(recent)s::bigint
    WINDOW w AS (PARTITION BY latest.slot_id ORDER BY latest.id)
)
SELECT
    m.slot_id AS slot,
    coalesce(m.before, 'nothing') || ', then ' || coalesce(m.from_state, 'nothing') || ' → '
        || coalesce(m.to_state, 'gone') AS history
FROM moves m
WHERE m.from_state IS DISTINCT FROM m.before AND NOT (m.first AND %(recent)s::bigint IS NOT NULL)
UNION ALL
SELECT s.id, 'ends with ' || coalesce(last.to_state, 'nothing') || ', it is ' || s.status
FROM bot_pool_slots s
LEFT JOIN LATERAL (
    -- The last one without a bot, or of the last bot that was there.
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
            ) AS tenant
            JOIN history h ON h.bot_id = tenant.bot_id
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
