-- List the tables and views of a schema that Botpool has not migrated: they belong to another system.
SELECT c.relname::text AS table_name
FROM pg_class c
WHERE c.relnamespace = current_schema()::regnamespace
  AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND NOT EXISTS (
      SELECT
      FROM pg_proc p
      WHERE p.pronamespace = current_schema()::regnamespace AND p.proname = 'botpool_now')
ORDER BY c.relname
