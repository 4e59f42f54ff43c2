-- Mark slots without a bot for deletion where the pool no longer wants them: slots of a former
-- backend, slots with a requested deletion, and slots above the maximum, highest numbers first. The
-- caller holds the pool's lock. Slots that an admission is claiming are skipped; the match that
-- follows their release handles them.
WITH counted AS MATERIALIZED (
    SELECT
        p.pool_name, p.backend,
        count(*) FILTER (WHERE c.status <> 'deleting') - p.max_size AS above,
        count(*) FILTER (
            WHERE c.status IN ('idle', 'error') AND (c.delete_requested OR c.backend <> p.backend)) AS unwanted
    FROM pools p
    JOIN slot_identities o ON o.pool_name = p.pool_name
    JOIN bot_pool_slots c ON c.id = o.slot_id
    WHERE p.pool_name = %(pool_name)s
      -- Count the slots only if the first or last entry of an index shows a reason. Numbers are
      -- unique, so a pool above its maximum has a number above the maximum.
      AND (
          (
              SELECT i.number FROM slot_identities i WHERE i.pool_name = %(pool_name)s
              ORDER BY i.number DESC LIMIT 1) > p.max_size
          OR (
              SELECT i.backend FROM slot_identities i WHERE i.pool_name = %(pool_name)s
              ORDER BY i.backend LIMIT 1) <> p.backend
          OR (
              SELECT i.backend FROM slot_identities i WHERE i.pool_name = %(pool_name)s
              ORDER BY i.backend DESC LIMIT 1) <> p.backend
          OR (
              SELECT o.number FROM bot_pool_slots o WHERE o.pool_name = %(pool_name)s AND o.delete_requested
              ORDER BY o.number LIMIT 1) IS NOT NULL)
    GROUP BY p.pool_name, p.backend, p.max_size
), surplus AS MATERIALIZED (
    SELECT
        s.id, s.slot_name, s.container_id, s.status,
        CASE WHEN s.delete_requested THEN %(delete_requested_reason)s::text
             WHEN s.backend <> counted.backend THEN %(backend_changed_reason)s::text
             ELSE %(above_maximum_reason)s::text END AS reason
    FROM counted
    JOIN slot_identities i ON i.pool_name = counted.pool_name
    JOIN bot_pool_slots s ON s.id = i.slot_id
    WHERE s.status IN ('idle', 'error')
      AND (counted.above > 0 OR s.delete_requested OR s.backend <> counted.backend)
    ORDER BY s.backend = counted.backend AND NOT s.delete_requested, s.number DESC
    LIMIT (SELECT greatest(counted.above, counted.unwanted, 0) FROM counted)
    FOR UPDATE OF s SKIP LOCKED
), slot AS (
    UPDATE bot_pool_slots s
    SET status = 'deleting',
        phase = NULL,
        standby = NULL,
        run_id = NULL,
        run_started_at = NULL,
        poll_owner = NULL,
        leads_image = NULL,
        start_allowed_at = NULL,
        start_issued_at = NULL,
        deployment_id = NULL,
        deployment_status = NULL,
        deployment_ended_at = NULL,
        phase_at = botpool_now(),
        next_step_at = botpool_now(),
        step_attempts = 0,
        version = s.version + 1
    FROM surplus
    WHERE s.id = surplus.id
), written AS (
    INSERT INTO history (kind, slot_id, slot_name, from_state, to_state, reason)
    SELECT
        'slot.status', surplus.id, surplus.slot_name, surplus.status, 'deleting', surplus.reason
    FROM surplus
)
SELECT
    surplus.id AS slot_id, surplus.slot_name, surplus.container_id, surplus.status, surplus.reason
FROM surplus
