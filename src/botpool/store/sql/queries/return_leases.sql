-- Hand every lease of a replica back: it stops, or it starts under the same name again.
UPDATE bot_pool_slots
SET lease_owner = NULL, lease_until = NULL, version = version + 1
WHERE lease_owner = %(owner)s
