-- The last recorded jump of the database's clock.
SELECT
    j.noticed_at, j.seconds, extract(epoch FROM botpool_now() - j.noticed_at)::float8 AS age_s
FROM clock_jumps j
