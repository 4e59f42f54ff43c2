-- The open bookings of a pool that overlap a period, earliest first.
SELECT
    k.bot_id, k.reserved, k.starts_at, b.join_at, botpool_booking_end(k.ends_at) AS ends_at, k.at_risk,
    b.status, k.on_time_probability
FROM bookings k
JOIN bots b ON b.id = k.bot_id
WHERE k.pool_name = %(pool_name)s
  AND k.ended_at IS NULL
  AND k.starts_at < %(before)s::timestamptz
  AND botpool_booking_end(k.ends_at) > %(after)s::timestamptz
ORDER BY k.starts_at, k.bot_id
LIMIT %(limit)s
