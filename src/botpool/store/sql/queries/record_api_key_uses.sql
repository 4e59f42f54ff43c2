-- Record that API keys were used. Keys that another replica recorded in the last minute are skipped.
UPDATE api_keys
SET last_used_at = botpool_now()
WHERE id = ANY (%(key_ids)s)
  AND (last_used_at IS NULL OR last_used_at < botpool_now() - interval '1 minute')
