-- A page of a slot's history, newest first: the rows of its newest assignments, up to the limit, and the
-- rows without a bot. The page ends after `max_bytes` of data, but has at least one row. BETWEEN with
-- equal bounds makes the plan scan a range of the index in order; with an equality, the planner may walk
-- down the whole table.
WITH alone AS MATERIALIZED (
    SELECT
        h.id, h.at, h.kind, h.from_state, h.to_state, h.slot_name, h.reason, h.data, h.bot_id,
        h.assignment_id
    FROM history h
    WHERE h.slot_id BETWEEN %(slot_id)s AND %(slot_id)s AND h.bot_id IS NULL
      AND h.id < %(before)s::bigint
    ORDER BY h.slot_id DESC, h.id DESC
    LIMIT %(limit)s::bigint + 1
), occupied AS MATERIALIZED (
    SELECT
        during.id, during.at, during.kind, during.from_state, during.to_state, during.slot_name,
        during.reason, during.data, during.bot_id, during.assignment_id
    FROM (
        SELECT a.id, a.bot_id
        FROM assignments a
        WHERE a.slot_id BETWEEN %(slot_id)s AND %(slot_id)s AND a.id <= %(last_assignment)s::bigint
        ORDER BY a.slot_id DESC, a.id DESC
        LIMIT %(limit)s::bigint + 1
    ) AS assignment
    CROSS JOIN LATERAL (
        SELECT
            h.id, h.at, h.kind, h.from_state, h.to_state, h.slot_name, h.reason, h.data, h.bot_id,
            h.assignment_id
        FROM history h
        WHERE h.bot_id BETWEEN assignment.bot_id AND assignment.bot_id
          AND h.assignment_id = assignment.id
          AND h.slot_id = %(slot_id)s
          AND h.id < %(before)s::bigint
        ORDER BY h.bot_id DESC, h.id DESC
    ) AS during
    LIMIT %(limit)s::bigint + 1
)
SELECT
    listed.id, listed.at, listed.kind, listed.from_state, listed.to_state, listed.slot_name,
    listed.reason, listed.data, listed.bot_id, listed.assignment_id, listed.more
FROM (
    SELECT
        each.id, each.at, each.kind, each.from_state, each.to_state, each.slot_name, each.reason,
        each.data, each.bot_id, each.assignment_id,
        lead(each.id) OVER following IS NOT NULL AS more,
        coalesce(
            sum(octet_length(each.data::text)) OVER (
                following ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
            0) AS bytes_before
    FROM (
        SELECT
            alone.id, alone.at, alone.kind, alone.from_state, alone.to_state, alone.slot_name,
            alone.reason, alone.data, alone.bot_id, alone.assignment_id
        FROM alone
        UNION ALL
        SELECT
            occupied.id, occupied.at, occupied.kind, occupied.from_state, occupied.to_state,
            occupied.slot_name, occupied.reason, occupied.data, occupied.bot_id,
            occupied.assignment_id
        FROM occupied
    ) AS each
    WINDOW following AS (ORDER BY each.id DESC)
    ORDER BY each.id DESC
    LIMIT %(limit)s
) AS listed
WHERE listed.bytes_before < %(max_bytes)s::bigint
ORDER BY listed.id DESC
