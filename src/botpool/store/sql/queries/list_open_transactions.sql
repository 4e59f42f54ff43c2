-- List what has held transactions open for longer than some seconds, in any database of the server:
-- sessions, prepared transactions and replication slots. A session or a prepared transaction that has
-- written holds back the stream of changes; all of them keep dead rows from being removed. Without the
-- role pg_read_all_stats the age of other users' sessions is not visible; then the distance of their
-- transaction from the newest one decides.
SELECT o.kind, o.name, o.pid, o.database_name, o.application, o.holds_stream, o.age_s
FROM (
    SELECT
        'session' AS kind, NULL::text AS name, a.pid, a.datname::text AS database_name,
        nullif(a.application_name, '') AS application, a.backend_xid IS NOT NULL AS holds_stream,
        extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS age_s,
        age(coalesce(a.backend_xid, a.backend_xmin)) AS transactions
    FROM pg_stat_activity a
    WHERE coalesce(a.backend_xid, a.backend_xmin) IS NOT NULL
      AND a.pid <> pg_backend_pid()
      AND a.backend_type IN ('client backend', 'walsender')
    UNION ALL
    SELECT
        'prepared transaction', p.gid, NULL, p.database::text, NULL, true,
        extract(epoch FROM clock_timestamp() - p.prepared)::float8, age(p.transaction)
    FROM pg_prepared_xacts p
    UNION ALL
    SELECT
        'replication slot', r.slot_name::text, r.active_pid, r.database::text, NULL, false, NULL,
        age(coalesce(r.xmin, r.catalog_xmin))
    FROM pg_replication_slots r
    WHERE coalesce(r.xmin, r.catalog_xmin) IS NOT NULL
) o
WHERE coalesce(o.age_s >= %(longer_than_s)s, o.transactions >= 100000)
ORDER BY o.holds_stream DESC, o.age_s DESC NULLS LAST
LIMIT 10
