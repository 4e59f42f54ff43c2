-- Make descriptions writable again that a clock that was set back holds for longer than a hold lasts.
UPDATE slot_descriptions
SET hold_until = botpool_now()
WHERE hold_until > botpool_now() + make_interval(secs => %(hold_s)s::float8 + %(tolerance_s)s)
RETURNING slot_id
