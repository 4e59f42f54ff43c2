-- What the schedule has to do: pools with bots that are due, and pools whose bookings need held slots,
-- which a match restores.
SELECT
    ARRAY(
        SELECT DISTINCT k.pool_name
        FROM bookings k
        WHERE k.due_at IS NULL AND k.ended_at IS NULL AND k.starts_at <= botpool_now()
        ORDER BY k.pool_name
    ) AS due,
    ARRAY(
        SELECT p.pool_name
        FROM pools p
        WHERE EXISTS (
                  SELECT FROM bookings k WHERE k.pool_name = p.pool_name AND k.ended_at IS NULL)
           OR EXISTS (
                  SELECT FROM bot_pool_slots s WHERE s.pool_name = p.pool_name AND s.held)
        ORDER BY p.pool_name
    ) AS booked
