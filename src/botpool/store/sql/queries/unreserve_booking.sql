-- Take the reservation from a booking for which no slot can be held.
UPDATE bookings SET reserved = false WHERE bot_id = %(bot_id)s
