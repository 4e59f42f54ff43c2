-- Let the reconciler create the containers of idle slots, for the pool's floor of idle slots. The caller holds the
-- pool's lock. The slots stay assignable: a bot that claims one first creates the container itself.
WITH chosen AS MATERIALIZED (
    SELECT s.id
    FROM bot_pool_slots s
    JOIN pools p ON p.pool_name = s.pool_name
    WHERE s.pool_name = %(pool_name)s
      AND s.claim_rank >= 2
      AND s.standby IS NULL
      AND s.next_step_at IS NULL
      AND s.backend = p.backend
      AND NOT s.delete_requested
      AND p.drained_at IS NULL
      AND (s.container_id IS NULL OR split_part(s.image, '@', 1) <> split_part(p.image, '@', 1))
      AND (s.error_at IS NULL
           OR s.error_at < botpool_now() - make_interval(secs => %(backoff_s)s * power(2, least(s.resets, 6))))
    ORDER BY s.number
    LIMIT %(slots)s
    FOR UPDATE OF s SKIP LOCKED
)
UPDATE bot_pool_slots s
SET next_step_at = botpool_now(),
    step_attempts = 0,
    version = s.version + 1
FROM chosen
WHERE s.id = chosen.id
RETURNING s.id
