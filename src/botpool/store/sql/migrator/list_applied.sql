-- List the names of the applied migrations.
SELECT m.name FROM schema_migrations m
