-- List the oldest open transactions of the database: they hold the locks that a migration waits for.
SELECT format('process %s (%s, %s) with a transaction of %s s', a.pid,
              COALESCE(NULLIF(a.application_name, ''), a.usename), a.state,
              floor(extract(epoch FROM clock_timestamp() - a.xact_start)))
FROM pg_stat_activity a
WHERE a.datname = current_database()
  AND a.pid <> pg_backend_pid()
  AND a.xact_start IS NOT NULL
ORDER BY a.xact_start
LIMIT 3
