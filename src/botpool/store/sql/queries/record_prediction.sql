-- Store the predicted probability that a scheduled bot is on time.
UPDATE bookings SET on_time_probability = %(probability)s WHERE bot_id = %(bot_id)s
