-- Slots whose next step has been due for long without a lease.
-- Meaning: a replica takes a due step within a minute
-- Remedy: Check that a replica runs, that it configures the slot's backend, and read its log.
-- Kind: momentary
SELECT
    s.slot_name AS slot, s.status,
    extract(epoch FROM botpool_now() - s.next_step_at)::bigint AS due_for_s
FROM bot_pool_slots s
WHERE s.next_step_at < botpool_now() - make_interval(secs => %(late_s)s)
  AND (s.lease_until IS NULL OR s.lease_until <= botpool_now())
