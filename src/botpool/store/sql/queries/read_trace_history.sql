-- The next batch of history for traces: the position after it, and all rows that begin or end spans of the bots
-- that it concerns, with those of the batch marked; one row without a bot if it concerns none.
WITH horizon AS MATERIALIZED (
    SELECT pg_snapshot_xmin(pg_current_snapshot()) AS xid
), batch AS MATERIALIZED (
    SELECT h.id, h.xid, h.bot_id, h.kind
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
        CASE WHEN (SELECT count(*) FROM batch) < %(limit)s THEN 0 ELSE last.id END AS id
    FROM horizon
    LEFT JOIN last ON true
), concerned AS MATERIALIZED (
    SELECT DISTINCT b.bot_id FROM batch b
    WHERE b.bot_id IS NOT NULL AND b.kind = ANY (%(kinds)s::text[])
), traced AS (
    SELECT
        b.id AS bot_id, b.pool_name, t.name AS tenant, b.correlation_id, b.traceparent,
        h.id AS row_id, h.at, h.kind, h.from_state, h.to_state, h.slot_name, h.reason,
        EXISTS (SELECT FROM batch n WHERE n.id = h.id) AS is_new
    FROM concerned c
    JOIN bots b ON b.id = c.bot_id
    JOIN tenants t ON t.id = b.tenant_id
    JOIN history h ON h.bot_id = c.bot_id AND h.kind = ANY (%(kinds)s::text[])
)
SELECT
    p.xid::text::bigint AS cursor_xid, p.id AS cursor_id, botpool_now() AS now,
    traced.bot_id, traced.pool_name, traced.tenant, traced.correlation_id, traced.traceparent,
    traced.row_id, traced.at, traced.kind, traced.from_state, traced.to_state, traced.slot_name,
    traced.reason, coalesce(traced.is_new, false) AS is_new
FROM position p
LEFT JOIN traced ON true
ORDER BY traced.bot_id, traced.row_id
