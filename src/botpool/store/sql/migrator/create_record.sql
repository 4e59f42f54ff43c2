-- Create the record of the applied migrations.
CREATE TABLE IF NOT EXISTS schema_migrations (
    name            text PRIMARY KEY,
    compatible_with text,
    applied_at      timestamptz NOT NULL DEFAULT statement_timestamp()
)
