-- Close a pool to newcomers, or open it again.
UPDATE pools
SET drained_at = CASE WHEN %(drained)s THEN coalesce(drained_at, botpool_now()) END,
    updated_at = botpool_now()
WHERE platform = %(platform)s
RETURNING platform
