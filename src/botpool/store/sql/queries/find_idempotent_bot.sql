-- Find the bot of an idempotency key. A separate statement, so that its snapshot follows a conflict.
SELECT k.bot_id, k.body_hash
FROM idempotency_keys k
WHERE k.api_key_id = %(api_key_id)s
  AND k.key = %(idempotency_key)s
  AND k.created_at >= botpool_now() - make_interval(days => %(idempotency_days)s)
