-- Slots that have waited longer than they may: to be made, for an image, for a image_host to start.
SELECT
    s.slot_name AS slot, s.phase, extract(epoch FROM botpool_now() - s.phase_at)::bigint AS for_s
FROM bot_pool_slots s
WHERE s.phase IN ('creating', 'waiting_for_image', 'waiting_for_start')
  AND s.phase_at < botpool_now() - make_interval(secs => %(wait_timeout_s)s + %(late_s)s)
