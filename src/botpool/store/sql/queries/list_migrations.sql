-- List the applied migrations. The statement fails if the database does not answer or has no schema.
SELECT m.name, m.compatible_with FROM schema_migrations m ORDER BY m.name
