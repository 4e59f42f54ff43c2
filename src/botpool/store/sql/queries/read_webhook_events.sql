-- The next events of a webhook, in the order of history, and the position after them; one row without an
-- event if no row of history gives one. A transaction can have a lower id than one whose row for the same
-- bot came first: such earlier rows beyond the batch are included, so that events of a bot stay in order.
WITH horizon AS MATERIALIZED (
    SELECT pg_snapshot_xmin(pg_current_snapshot()) AS xid
), batch AS MATERIALIZED (
    SELECT
        h.id, h.xid, h.at, h.kind, h.bot_id, h.slot_name, h.to_state, h.reason, h.correlation_id, h.data
    FROM history h
    WHERE (h.xid, h.id) > (%(cursor_xid)s::text::xid8, %(cursor_id)s::bigint)
      AND h.xid < (SELECT horizon.xid FROM horizon)
    ORDER BY h.xid, h.id
    LIMIT %(limit)s
), last AS (
    SELECT b.xid, b.id FROM batch b ORDER BY b.xid DESC, b.id DESC LIMIT 1
), position AS MATERIALIZED (
    SELECT
        CASE WHEN (SELECT count(*) FROM batch) < %(limit)s THEN horizon.xid ELSE last.xid END AS xid,
        CASE WHEN (SELECT count(*) FROM batch) < %(limit)s THEN 0 ELSE last.id END AS id,
        (SELECT max(b.id) FROM batch b) AS newest_id
    FROM horizon
    LEFT JOIN last ON true
), source AS MATERIALIZED (
    SELECT s.kind, s.to_state, s.type
    FROM unnest(%(kinds)s::text[], %(states)s::text[], %(types)s::text[]) AS s (kind, to_state, type)
    WHERE %(events)s::text[] IS NULL OR s.type = ANY (%(events)s::text[])
), wanted AS MATERIALIZED (
    SELECT
        b.id, b.at, b.kind, b.bot_id, b.slot_name, b.to_state, b.reason, b.correlation_id, b.data,
        s.type
    FROM batch b
    JOIN source s ON s.kind = b.kind AND (s.to_state IS NULL OR s.to_state = b.to_state)
), early AS (
    SELECT
        h.id, h.at, h.kind, h.bot_id, h.slot_name, h.to_state, h.reason, h.correlation_id, h.data,
        s.type
    FROM (SELECT w.bot_id, max(w.id) AS newest FROM wanted w WHERE w.bot_id IS NOT NULL GROUP BY 1) AS bot
    CROSS JOIN position p
    JOIN history h ON h.bot_id = bot.bot_id AND h.id < bot.newest AND (h.xid, h.id) > (p.xid, p.id)
    JOIN source s ON s.kind = h.kind AND (s.to_state IS NULL OR s.to_state = h.to_state)
), event AS (
    SELECT
        e.id AS history_id, e.type, e.at, e.kind, e.to_state, e.reason, e.data, e.bot_id,
        e.correlation_id, e.slot_name, t.name AS tenant, b.bot_display_name, b.failure_code,
        b.failure_reason, b.end_reason,
        CASE
            WHEN e.bot_id IS NOT NULL THEN ARRAY[b.pool_name]
            WHEN e.data ->> 'platform' IS NOT NULL THEN ARRAY[e.data ->> 'platform']
            ELSE ARRAY(SELECT p.pool_name FROM pools p WHERE p.egress = e.data ->> 'egress' ORDER BY 1)
        END AS pool_names
    FROM (TABLE wanted UNION ALL TABLE early) AS e
    LEFT JOIN bots b ON b.id = e.bot_id
    LEFT JOIN tenants t ON t.id = b.tenant_id
    WHERE (e.bot_id IS NULL OR b.id IS NOT NULL)
      AND (%(tenant_id)s::bigint IS NULL OR b.tenant_id = %(tenant_id)s)
)
SELECT
    p.xid::text::bigint AS cursor_xid, p.id AS cursor_id, coalesce(p.newest_id, 0) AS newest_id,
    event.history_id, event.type, event.at, event.kind, event.to_state, event.reason, event.data,
    event.bot_id, event.correlation_id, event.slot_name, event.tenant, event.bot_display_name,
    event.failure_code, event.failure_reason, event.end_reason, event.pool_names
FROM position p
LEFT JOIN event ON true
ORDER BY event.history_id
