-- Find a live replica whose version does not know standbys.
SELECT l.replica
FROM liveness l
WHERE NOT l.standbys
  AND l.stopped_at IS NULL
  AND l.alive_at > botpool_now() - make_interval(secs => %(alive_s)s)
ORDER BY l.replica
LIMIT 1
