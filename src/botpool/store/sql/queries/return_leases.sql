-- Return all leases of one replica that stops, or without an owner those of all replicas.
UPDATE bot_pool_slots
SET lease_owner = NULL, lease_until = NULL, version = version + 1
WHERE lease_owner IS NOT NULL AND (%(owner)s::text IS NULL OR lease_owner = %(owner)s)
