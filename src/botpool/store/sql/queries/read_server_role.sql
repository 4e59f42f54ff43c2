-- Read whether the server accepts writes. This statement writes nothing, so a standby answers it too.
SELECT
    pg_is_in_recovery() AS is_standby,
    current_setting('transaction_read_only') = 'on' AS is_read_only
