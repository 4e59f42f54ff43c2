-- How long bots keep the slots of a pool: the total time and the number of ends of the newest hundred
-- finished assignments, the time of the assignments under way, and the number of slots that have one.
SELECT
    done.ends,
    done.exposure_s + under_way.exposure_s AS exposure_s,
    under_way.slots
FROM (
    SELECT
        count(*) AS ends,
        coalesce(sum(extract(epoch FROM a.ended_at - a.assigned_at)), 0)::float8 AS exposure_s
    FROM (
        SELECT l.assigned_at, l.ended_at
        FROM assignments l
        WHERE l.pool_name = %(pool_name)s AND l.ended_at IS NOT NULL
        ORDER BY l.assigned_at DESC
        LIMIT 100
    ) AS a
) AS done
CROSS JOIN (
    SELECT
        count(*) AS slots,
        coalesce(sum(extract(epoch FROM botpool_now() - s.last_assigned_at)), 0)::float8 AS exposure_s
    FROM bot_pool_slots s
    WHERE s.pool_name = %(pool_name)s AND s.assigned_bot_id IS NOT NULL AND NOT s.cordoned
) AS under_way
