-- List the HTTP servers of replicas that are alive, or that did not answer in the last day.
SELECT
    l.replica,
    l.stopped_at IS NULL AND l.alive_at > botpool_now() - make_interval(secs => %(within_s)s) AS is_alive,
    l.file_limit,
    l.files_needed,
    CASE WHEN l.unanswered_at > botpool_now() - interval '1 day' THEN l.unanswered_at END AS unanswered_at
FROM liveness l
WHERE l.unanswered_at > botpool_now() - interval '1 day'
   OR (l.stopped_at IS NULL AND l.alive_at > botpool_now() - make_interval(secs => %(within_s)s))
ORDER BY l.replica
