-- Correct the starts of a pool's scheduled bots to its current times: starts become slower or faster,
-- and more bots for the same minute need more time for their pace. The caller holds the booking lock.
WITH corrected AS MATERIALIZED (
    SELECT
        k.bot_id,
        b.join_at - make_interval(
            secs => t.start_s + botpool_pacing_time(k.pool_name, b.join_at)) AS starts_at
    FROM bookings k
    JOIN bots b ON b.id = k.bot_id
    CROSS JOIN LATERAL botpool_booking_times(k.pool_name) AS t
    WHERE k.pool_name = %(pool_name)s
      AND k.due_at IS NULL
      AND k.ended_at IS NULL
      AND b.status = 'SCHEDULED'
)
UPDATE bookings k
SET starts_at = c.starts_at
FROM corrected c
WHERE k.bot_id = c.bot_id
  AND k.due_at IS NULL
  AND abs(extract(epoch FROM c.starts_at - k.starts_at)) > 1
