-- The capacity of a pool for bookings, its hold and the clock.
SELECT
    botpool_now() AS now, p.max_size, t.reservable_slots, t.hold_s, t.start_s, t.duration_s,
    (
        SELECT count(*) FROM bot_pool_slots s
        WHERE s.pool_name = p.pool_name AND s.held AND s.status = 'idle')::integer AS held
FROM pools p
CROSS JOIN LATERAL botpool_booking_times(p.pool_name) AS t
WHERE p.pool_name = %(pool_name)s
