-- Return one lease, so that the slot's next step can run at once. The end of the lease distinguishes
-- it from a later lease of the same replica.
UPDATE bot_pool_slots
SET lease_owner = NULL, lease_until = NULL, version = version + 1
WHERE id = %(slot_id)s AND lease_owner = %(owner)s AND lease_until = %(lease_until)s
