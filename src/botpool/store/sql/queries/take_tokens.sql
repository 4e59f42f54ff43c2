-- Take up to `wanted` tokens from a bucket, which is full at first. The conflict locks the row, so that
-- concurrent replicas never take more tokens than there are.
INSERT INTO token_buckets AS b (bucket, tokens, granted, refilled_at)
VALUES (
    %(bucket)s,
    %(burst)s::integer - least(%(wanted)s::integer, %(burst)s::integer),
    least(%(wanted)s::integer, %(burst)s::integer),
    botpool_now())
ON CONFLICT (bucket) DO UPDATE
SET (tokens, granted, refilled_at) = (
    SELECT filled.tokens - taken.tokens, taken.tokens, botpool_now()
    FROM (
        SELECT least(
            %(burst)s::integer,
            b.tokens + greatest(0, extract(epoch FROM botpool_now() - b.refilled_at)::float8)
                * %(per_minute)s::integer / 60.0) AS tokens
    ) AS filled
    CROSS JOIN LATERAL (
        SELECT least(%(wanted)s::integer, floor(filled.tokens)::integer) AS tokens
    ) AS taken)
RETURNING
    b.granted AS tokens,
    CASE WHEN b.granted > 0 THEN 0
         ELSE (1 - b.tokens) * 60.0 / %(per_minute)s::integer END::float8 AS wait_s
