-- What the poll has to do: queue rows past their deadline, pools that could serve somebody, and
-- backends at whose gate somebody waits.
SELECT
    EXISTS (SELECT FROM bot_pool_queue q WHERE q.timeout_at <= botpool_now()) AS expired,
    ARRAY(
        SELECT p.platform
        FROM pools p
        WHERE p.drained_at IS NULL
          AND EXISTS (SELECT FROM bot_pool_queue q WHERE q.platform = p.platform)
          AND (
              EXISTS (
                  SELECT
                  FROM bot_pool_slots s
                  WHERE s.platform = p.platform AND s.status = 'idle' AND NOT s.cordoned)
              OR (SELECT count(*) FROM bot_pool_slots s WHERE s.platform = p.platform) < p.max_size
          )
        ORDER BY p.platform
    ) AS servable,
    ARRAY(
        SELECT DISTINCT s.backend
        FROM bot_pool_slots s
        WHERE s.phase IN ('waiting_for_image', 'waiting_for_start')
        ORDER BY s.backend
    ) AS gates
