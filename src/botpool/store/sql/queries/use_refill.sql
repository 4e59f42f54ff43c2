-- Record up to which time the rate of a pool's refill is used up. The caller holds the pool's lock.
UPDATE pools SET refilled_until = %(until)s WHERE pool_name = %(pool_name)s
