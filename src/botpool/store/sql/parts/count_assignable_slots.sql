-- Begin a match: how many slots of the pool can take a bot, if a bot waits.
WITH wanted AS MATERIALIZED (
    -- Reads the idle slots only if a bot waits.
    SELECT
        least(
            (
                SELECT count(*)
                FROM bot_pool_slots s
                WHERE s.pool_name = %(pool_name)s AND s.claim_rank IS NOT NULL),
            -- In a paced pool, no more bots than could start. Null is no limit.
            CASE WHEN pool.egress IS NOT NULL THEN botpool_lock_assignable_bots(pool.egress) END) AS slots,
        pool.egress, pool.shared, pool.handover_timeout_s
    FROM (
        SELECT
            p.egress, p.shared, p.handover_timeout_s,
            (
                SELECT q.bot_id FROM bot_pool_queue q WHERE q.pool_name = %(pool_name)s
                ORDER BY q.priority, q.arrival LIMIT 1) AS first_bot_id
        FROM pools p
        WHERE p.pool_name = %(pool_name)s AND p.drained_at IS NULL
        OFFSET 0
    ) AS pool
    WHERE pool.first_bot_id IS NOT NULL
