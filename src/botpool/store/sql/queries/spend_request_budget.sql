-- Spend requests of a backend's budget, all or none, if no more than `limit` were spent within the
-- window. An earlier statement has locked the backend's row, so this statement counts all requests.
WITH spent AS MATERIALIZED (
    SELECT coalesce(sum(r.requests), 0) AS requests, min(r.at) AS oldest_at
    FROM backend_requests r
    WHERE r.backend = %(backend)s AND r.at > botpool_now() - make_interval(secs => %(window_s)s)
), verdict AS MATERIALIZED (
    SELECT
        -- A request count above the limit is granted in an empty window.
        (k.paused_until IS NULL OR k.paused_until <= botpool_now())
            AND (spent.requests + %(requests)s <= %(limit)s OR spent.requests = 0) AS granted,
        extract(epoch FROM greatest(
            k.paused_until,
            CASE WHEN spent.requests + %(requests)s > %(limit)s
                 THEN spent.oldest_at + make_interval(secs => %(window_s)s) END
        ) - botpool_now())::float8 AS retry_after_s
    FROM backends k, spent
    WHERE k.name = %(backend)s
), sent AS (
    INSERT INTO backend_requests AS r (backend, at, requests)
    SELECT %(backend)s, date_trunc('second', botpool_now()) + interval '1 second', %(requests)s
    FROM verdict
    WHERE verdict.granted
    ON CONFLICT (backend, at) DO UPDATE SET requests = r.requests + EXCLUDED.requests
), forgotten AS (
    DELETE FROM backend_requests r
    WHERE r.backend = %(backend)s
      AND r.at < botpool_now() - make_interval(secs => 2 * %(window_s)s)
)
SELECT verdict.granted, verdict.retry_after_s FROM verdict
