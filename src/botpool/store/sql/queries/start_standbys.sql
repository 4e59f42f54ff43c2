-- Begin standbys in idle slots of a pool. The caller holds the pool's lock. The slots stay assignable. A slot
-- whose last start failed waits, longer after each failure.
WITH chosen AS MATERIALIZED (
    SELECT s.id, s.slot_name, s.container_id
    FROM bot_pool_slots s
    JOIN pools p ON p.pool_name = s.pool_name
    WHERE s.pool_name = %(pool_name)s
      AND s.claim_rank >= 2
      AND s.standby IS NULL
      AND s.backend = p.backend
      AND NOT s.delete_requested
      AND p.drained_at IS NULL
      AND (s.error_at IS NULL
           OR s.error_at < botpool_now() - make_interval(secs => %(backoff_s)s * power(2, least(s.resets, 6))))
    ORDER BY s.claim_rank, s.last_used_at NULLS FIRST, s.number
    LIMIT %(standbys)s
    FOR UPDATE OF s SKIP LOCKED
), slot AS (
    UPDATE bot_pool_slots s
    SET standby = 'starting',
        phase = 'creating',
        phase_at = botpool_now(),
        run_id = nextval('assignments_id_seq'),
        run_started_at = NULL,
        poll_owner = NULL,
        next_step_at = botpool_now(),
        step_attempts = 0,
        version = s.version + 1
    FROM chosen
    WHERE s.id = chosen.id
    RETURNING s.id, s.slot_name, s.container_id, s.run_id
), written AS (
    INSERT INTO history (kind, slot_id, slot_name, to_state, reason, data)
    SELECT
        'slot.standby', slot.id, slot.slot_name, 'starting', %(reason)s,
        json_build_object('runId', slot.run_id)
    FROM slot
)
SELECT slot.id AS slot_id, slot.slot_name, slot.container_id FROM slot
