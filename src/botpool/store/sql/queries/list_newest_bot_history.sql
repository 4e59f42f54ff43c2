-- A page of a bot's history, newest first. The page ends after `max_bytes` of data, but has at least one
-- row.
SELECT
    listed.id, listed.at, listed.kind, listed.from_state, listed.to_state, listed.slot_name,
    listed.reason, listed.data, listed.more
FROM (
    SELECT
        h.id, h.at, h.kind, h.from_state, h.to_state, h.slot_name, h.reason, h.data,
        lead(h.id) OVER following IS NOT NULL AS more,
        coalesce(
            sum(octet_length(h.data::text)) OVER (
                following ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
            0) AS bytes_before
    FROM history h
    WHERE h.bot_id = %(bot_id)s AND h.id < %(before)s::bigint
    WINDOW following AS (ORDER BY h.bot_id DESC, h.id DESC)
    ORDER BY h.bot_id DESC, h.id DESC
    LIMIT %(limit)s
) AS listed
WHERE listed.bytes_before < %(max_bytes)s::bigint
ORDER BY listed.id DESC
