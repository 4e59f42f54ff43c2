-- Begin the stop of standbys without a bot: all of cordoned slots, drained pools and former backends, and so many
-- of the others, outdated ones and those without a poll first. The commit comes before the stop is sent.
WITH candidate AS MATERIALIZED (
    SELECT
        s.id, s.standby,
        s.cordoned OR p.drained_at IS NOT NULL OR s.backend <> p.backend AS is_forced,
        coalesce(
            s.start_issued_at < p.updated_at
            OR s.run_started_at < botpool_now() - make_interval(secs =>
                (p.warm ->> 'max_age_s')::float8 * (0.9 + (s.run_id %% 100) / 1000.0)), false) AS is_outdated,
        s.run_id
    FROM bot_pool_slots s
    JOIN pools p ON p.pool_name = s.pool_name
    WHERE s.pool_name = %(pool_name)s AND s.status = 'idle' AND s.standby IN ('starting', 'ready')
), chosen AS MATERIALIZED (
    SELECT c.id FROM candidate c WHERE c.is_forced
    UNION ALL
    (
        SELECT c.id FROM candidate c WHERE NOT c.is_forced
        ORDER BY c.is_outdated DESC, c.standby = 'ready', c.run_id
        LIMIT %(surplus)s)
), locked AS MATERIALIZED (
    SELECT s.id, s.standby
    FROM bot_pool_slots s
    WHERE s.id = ANY (ARRAY(SELECT chosen.id FROM chosen))
      AND s.status = 'idle' AND s.standby IN ('starting', 'ready')
    ORDER BY s.id
    FOR UPDATE SKIP LOCKED
), slot AS (
    UPDATE bot_pool_slots s
    SET standby = 'stopping',
        phase = NULL,
        phase_at = botpool_now(),
        poll_owner = NULL,
        leads_image = NULL,
        stop_issued_at = NULL,
        next_step_at = botpool_now(),
        step_attempts = 0,
        version = s.version + 1
    FROM locked
    WHERE s.id = locked.id
    RETURNING s.id, s.slot_name, s.container_id, s.run_id, locked.standby AS former
), written AS (
    INSERT INTO history (kind, slot_id, slot_name, from_state, to_state, reason, data)
    SELECT
        'slot.standby', slot.id, slot.slot_name, slot.former, 'stopping', %(reason)s,
        json_build_object('runId', slot.run_id)
    FROM slot
)
SELECT slot.id AS slot_id, slot.slot_name, slot.container_id FROM slot
