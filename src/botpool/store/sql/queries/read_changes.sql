-- The changes of transactions from `since` up to the horizon, and the horizon itself. All transactions
-- below the horizon have ended, so no change can appear below it later. Ids follow the order of the
-- changes but not the order of the commits; a range below the horizon has no gaps.
-- `epoch` identifies the history that they belong to: a restored database begins another one.
-- `held_s` is the age of the oldest visible change above the horizon.
WITH horizon AS MATERIALIZED (
    SELECT coalesce(%(until)s::text::xid8, pg_snapshot_xmin(pg_current_snapshot())) AS xid
), fresh AS MATERIALIZED (
    SELECT
        h.id, h.at, h.kind, h.bot_id, h.slot_id, h.slot_name, h.from_state, h.to_state, h.reason,
        h.correlation_id, h.data, h.xid
    FROM history h
    WHERE h.xid >= %(since)s::text::xid8 AND h.xid < (SELECT horizon.xid FROM horizon)
    ORDER BY h.xid, h.id
    LIMIT %(limit)s
)
SELECT
    coalesce(
        (SELECT e.first_assignment_id FROM database_epochs e ORDER BY e.number DESC LIMIT 1), 0
    ) AS epoch,
    horizon.xid::text::bigint AS horizon,
    (
        SELECT extract(epoch FROM botpool_now() - waiting.at)::float8
        FROM history waiting
        WHERE waiting.xid >= horizon.xid
        ORDER BY waiting.xid, waiting.id
        LIMIT 1
    ) AS held_s,
    fresh.id, fresh.at, fresh.kind, fresh.bot_id, fresh.slot_id, fresh.slot_name,
    fresh.from_state, fresh.to_state, fresh.reason, fresh.correlation_id, fresh.data,
    fresh.xid::text::bigint AS transaction, b.tenant_id,
    coalesce(
        b.pool_name,
        substring(fresh.slot_name FROM '^pool-(.+)-[0-9]+$'),
        CASE WHEN fresh.kind = 'pool.drain' THEN fresh.data ->> 'platform' END
    ) AS pool_name
FROM horizon
LEFT JOIN fresh ON true
LEFT JOIN bots b ON b.id = fresh.bot_id
ORDER BY fresh.id
