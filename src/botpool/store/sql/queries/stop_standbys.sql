-- Begin the stop of standbys without a bot: all of cordoned slots, drained pools and former backends, and so many
-- of the others, those of bookings last, outdated ones and those without a poll first. The commit comes before the stop is sent.
WITH candidate AS MATERIALIZED (
    SELECT
        s.id, s.standby,
        s.cordoned OR p.drained_at IS NOT NULL OR s.backend <> p.backend AS is_forced,
        coalesce(
            s.start_issued_at < p.updated_at
            OR s.run_started_at < botpool_now() - make_interval(secs =>
                (p.warm ->> 'max_age_s')::float8 * (0.9 + (s.run_id %% 100) / 1000.0)), false) AS is_outdated,
        s.run_id, s.held
    FROM bot_pool_slots s
    JOIN pools p ON p.pool_name = s.pool_name
    WHERE s.pool_name = %(pool_name)s AND s.status = 'idle' AND s.standby IN ('starting', 'ready')
), chosen AS MATERIALIZED (
    SELECT c.id FROM candidate c WHERE c.is_forced
    UNION ALL
    (
        SELECT c.id FROM candidate c WHERE NOT c.is_forced
        ORDER BY c.held, c.is_outdated DESC, c.standby = 'ready', c.run_id
        LIMIT %(surplus)s)
), locked AS MATERIALIZED (
    SELECT s.id, s.standby
    FROM bot_pool_slots s
    WHERE s.id = ANY (ARRAY(SELECT chosen.id FROM chosen))
      AND s.status = 'idle' AND s.standby IN ('starting', 'ready')
    ORDER BY s.id
    FOR UPDATE SKIP LOCKED
-- include begin_standby_stop.sql
)
SELECT slot.id AS slot_id, slot.slot_name, slot.container_id FROM slot
