-- Read the version, role, clock and relevant settings of the server. PostgreSQL versions that are too old
-- for Botpool accept this statement too.
SELECT
    current_setting('server_version') AS version,
    current_setting('server_version_num')::integer AS version_number,
    pg_is_in_recovery() AS is_standby,
    current_setting('default_transaction_read_only') = 'on' AS is_read_only,
    current_setting('fsync') = 'on' AS fsync,
    current_setting('full_page_writes') = 'on' AS full_page_writes,
    current_setting('synchronous_commit') <> 'off' AS synchronous_commit,
    current_setting('autovacuum') = 'on' AS autovacuum,
    current_setting('max_connections')::integer AS max_connections,
    current_setting('superuser_reserved_connections')::integer AS reserved_connections,
    (
        SELECT count(*) FROM pg_stat_activity a WHERE a.backend_type = 'client backend'
    ) AS used_connections,
    (
        SELECT g.setting::bigint FROM pg_settings g WHERE g.name = 'idle_session_timeout'
    ) AS idle_session_timeout_ms,
    (
        SELECT g.setting::bigint FROM pg_settings g WHERE g.name = 'transaction_timeout'
    ) AS transaction_timeout_ms,
    clock_timestamp() AS clock
