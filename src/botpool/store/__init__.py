"""PostgreSQL: the schema, the statements, and the only place that talks to the database."""
