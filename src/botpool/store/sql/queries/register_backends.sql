-- Make the rows that replicas share about their backends. Those that exist stay as they are.
INSERT INTO backends (name)
SELECT unnest(%(backends)s::text[])
ON CONFLICT (name) DO NOTHING
