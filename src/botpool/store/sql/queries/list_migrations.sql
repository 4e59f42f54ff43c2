-- List the applied migrations. The statement fails if the database does not answer or has no schema.
SELECT m.migration_id::text AS migration FROM _yoyo_migration m ORDER BY m.migration_id
