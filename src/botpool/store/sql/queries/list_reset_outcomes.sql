-- Read how the resets of slots in error went; a slot that no longer exists returns no row.
SELECT s.id AS slot_id, s.status, s.lease_until > botpool_now() IS TRUE AS in_progress
FROM bot_pool_slots s
WHERE s.id = ANY (%(slot_ids)s::bigint[])
