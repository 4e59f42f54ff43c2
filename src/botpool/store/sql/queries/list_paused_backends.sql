-- Backends whose pool_name asked to be left alone, and for how much longer.
SELECT k.name AS backend, extract(epoch FROM k.paused_until - botpool_now())::float8 AS seconds
FROM backends k
WHERE k.paused_until > botpool_now()
