-- The database answers, and has the schema of these migrations.
SELECT ARRAY(SELECT m.migration_id::text FROM _yoyo_migration m ORDER BY m.migration_id) AS migrations
