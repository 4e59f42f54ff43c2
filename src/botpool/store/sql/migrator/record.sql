-- Record an applied migration and the oldest version that can serve on the new schema.
INSERT INTO schema_migrations (name, compatible_with) VALUES (%(name)s, %(compatible_with)s)
