-- Create the rows that replicas share about their backends; existing rows stay as they are.
INSERT INTO backends (name)
SELECT unnest(%(backends)s::text[])
ON CONFLICT (name) DO NOTHING
