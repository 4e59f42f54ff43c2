-- List the backends that asked for a pause, with the remaining seconds.
SELECT k.name AS backend, extract(epoch FROM k.paused_until - botpool_now())::float8 AS seconds
FROM backends k
WHERE k.paused_until > botpool_now()
