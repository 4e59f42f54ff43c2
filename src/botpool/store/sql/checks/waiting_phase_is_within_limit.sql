-- Slots that have waited beyond the limit for their creation, their image or their start.
-- Meaning: no slot waits beyond the limit for its creation, its image or its start
-- Remedy: Check that a replica runs, and that the backend answers ('backend').
-- Kind: momentary
SELECT
    s.slot_name AS slot, s.phase, extract(epoch FROM botpool_now() - s.phase_at)::bigint AS for_s
FROM bot_pool_slots s
WHERE s.phase IN ('creating', 'waiting_for_image', 'waiting_for_start')
  AND s.phase_at < botpool_now() - make_interval(secs => %(wait_timeout_s)s + %(late_s)s)
