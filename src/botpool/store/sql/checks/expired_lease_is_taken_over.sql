-- Leases that expired long ago and that no replica returned or took over.
-- Meaning: a replica returns a lease or another one takes it over
-- Remedy: Nothing, if a replica was killed: the slot's next step takes the lease over.
-- Kind: harmless
SELECT
    s.slot_name AS slot, s.lease_owner AS owner,
    extract(epoch FROM botpool_now() - s.lease_until)::bigint AS ended_for_s
FROM bot_pool_slots s
WHERE s.lease_until < botpool_now() - make_interval(secs => %(late_s)s)
