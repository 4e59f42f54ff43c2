-- Hand one lease back, so that whoever now owns the slot's state can go on at once.
UPDATE bot_pool_slots
SET lease_owner = NULL, lease_until = NULL, version = version + 1
WHERE id = %(slot_id)s AND lease_owner = %(owner)s
