-- Count heartbeats from the future, which a clock that was set back leaves, as heartbeats of now: a bot
-- that has fallen silent would seem alive until then.
UPDATE bot_heartbeats
SET last_at = botpool_now(), progress_at = botpool_not_after(progress_at, botpool_now())
WHERE last_at > botpool_now() + make_interval(secs => %(tolerance_s)s)
RETURNING bot_id
