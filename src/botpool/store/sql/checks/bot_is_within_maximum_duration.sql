-- Live bots that have run for longer than the maximum duration (0: no maximum).
-- Meaning: no bot runs beyond the maximum duration
-- Remedy: Check that a replica runs, then stop the bot: 'botpool bot stop'.
-- Kind: momentary
SELECT
    b.id AS bot, b.status, extract(epoch FROM botpool_now() - b.started_at)::bigint AS for_s
FROM bots b
WHERE b.status IN ('JOINING_CALL', 'IN_WAITING_ROOM', 'IN_CALL', 'LEAVING', 'CALL_ENDED')
  AND %(max_duration_s)s > 0
  AND b.started_at < botpool_now() - make_interval(secs => %(max_duration_s)s + %(late_s)s)
