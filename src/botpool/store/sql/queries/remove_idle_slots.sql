-- Begin the removal of idle slots that had no bot for the pool's idle_ttl_s: slots without a container first, then
-- those that had no bot for longest. The caller holds the pool's lock and has counted. A slot that an admission is
-- claiming is skipped.
WITH chosen AS MATERIALIZED (
    SELECT s.id, s.slot_name, s.container_id
    FROM bot_pool_slots s
    JOIN pools p ON p.pool_name = s.pool_name
    WHERE s.pool_name = %(pool_name)s
      AND s.claim_rank >= 2
      AND s.standby IS NULL
      AND s.next_step_at IS NULL
      AND greatest(s.created_at, s.last_used_at, s.last_released_at)
          < botpool_now() - make_interval(secs => nullif((p.warm ->> 'idle_ttl_s')::float8, 0))
    ORDER BY s.claim_rank DESC, s.last_used_at NULLS FIRST, s.number DESC
    LIMIT %(slots)s
    FOR UPDATE OF s SKIP LOCKED
), slot AS (
    UPDATE bot_pool_slots s
    SET status = 'deleting',
        phase_at = botpool_now(),
        next_step_at = botpool_now(),
        step_attempts = 0,
        version = s.version + 1
    FROM chosen
    WHERE s.id = chosen.id
), written AS (
    INSERT INTO history (kind, slot_id, slot_name, from_state, to_state, reason)
    SELECT 'slot.status', chosen.id, chosen.slot_name, 'idle', 'deleting', %(reason)s
    FROM chosen
)
SELECT chosen.id AS slot_id, chosen.slot_name, chosen.container_id FROM chosen
