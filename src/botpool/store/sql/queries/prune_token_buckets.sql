-- Delete buckets that were not used for a day: an absent bucket is full.
DELETE FROM token_buckets b
WHERE b.bucket IN (
    SELECT old.bucket
    FROM token_buckets old
    WHERE old.refilled_at < botpool_now() - interval '1 day'
    LIMIT %(limit)s)
RETURNING b.bucket
