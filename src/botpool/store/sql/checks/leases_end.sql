-- Leases that ended long ago and were neither given back nor taken over.
SELECT
    s.slot_name AS slot, s.lease_owner AS owner,
    extract(epoch FROM botpool_now() - s.lease_until)::bigint AS ended_for_s
FROM bot_pool_slots s
WHERE s.lease_until < botpool_now() - make_interval(secs => %(late_s)s)
