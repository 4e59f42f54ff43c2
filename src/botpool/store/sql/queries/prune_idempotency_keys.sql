-- Delete a batch of expired idempotency keys.
DELETE FROM idempotency_keys
WHERE (api_key_id, key) IN (
    SELECT k.api_key_id, k.key
    FROM idempotency_keys k
    WHERE k.created_at < botpool_now() - make_interval(days => %(days)s)
    ORDER BY k.created_at
    LIMIT %(limit)s)
RETURNING key
