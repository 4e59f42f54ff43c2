-- List the replicas that recently recorded that they are alive, with the addresses that they hand out.
SELECT l.replica, l.public_url
FROM liveness l
WHERE l.stopped_at IS NULL AND l.alive_at > botpool_now() - make_interval(secs => %(within_s)s)
ORDER BY l.replica
