-- Free slots of one pool whose stops are confirmed. The only statement that clears assigned_bot_id.
-- Each slot is fenced; a slot that has changed returns no row. Locks slots in the order of their
-- ids. The transaction holds the pool's lock, and a match follows in it. Without a match, the
-- statement frees only slots after which a match would change nothing: no bot waits, and the pool
-- keeps the slot.
WITH held AS MATERIALIZED (
    SELECT
        s.id, s.assigned_bot_id, s.assignment_id, s.container_id, s.phase_at, s.slot_name,
        s.backend, s.tenant_id, f.status, f.error_message, f.container_gone, f.reason, f.abandoned
    FROM unnest(
        %(slot_ids)s::bigint[], %(assignment_ids)s::bigint[], %(versions)s::bigint[],
        %(statuses)s::text[], %(error_messages)s::text[], %(containers_gone)s::boolean[],
        %(reasons)s::text[], %(abandoned)s::boolean[]
    ) AS f (
        slot_id, assignment_id, version, status, error_message, container_gone, reason, abandoned)
    JOIN bot_pool_slots s ON s.id = f.slot_id
    JOIN pools p ON p.pool_name = s.pool_name
    -- ANY and IS TRUE keep the planner on the primary key, also with a plan made for a small table.
    WHERE s.id = ANY (%(slot_ids)s::bigint[])
      AND ((s.assignment_id, s.version, s.status)
          = (f.assignment_id, f.version, 'releasing')) IS TRUE
      AND (
          %(match_follows)s
          OR (
              NOT s.delete_requested
              AND s.backend = p.backend
              AND p.max_size >= (
                  SELECT i.number FROM slot_identities i WHERE i.pool_name = %(pool_name)s
                  ORDER BY i.number DESC LIMIT 1)
              AND (
                  SELECT q.id FROM bot_pool_queue q WHERE q.pool_name = %(pool_name)s
                  ORDER BY q.priority, q.arrival LIMIT 1) IS NULL))
    ORDER BY s.id
    FOR UPDATE OF s
), former AS MATERIALIZED (
    SELECT
        held.id, held.assigned_bot_id, held.assignment_id, held.container_id, held.phase_at,
        held.slot_name, held.backend, held.tenant_id, held.status, held.error_message,
        held.container_gone, held.reason, held.abandoned, b.status AS bot_status, b.correlation_id, a.assigned_at
    FROM held
    JOIN bots b ON b.id = held.assigned_bot_id
    JOIN assignments a ON a.id = held.assignment_id
), given_back AS MATERIALIZED (
    SELECT former.tenant_id, count(*)::integer AS slots FROM former GROUP BY former.tenant_id
), quota AS MATERIALIZED (
    -- The only place that waits for quotas: in the order of their ids, before a match locks others.
    SELECT t.id
    FROM tenants t
    WHERE t.id = ANY (ARRAY(SELECT g.tenant_id FROM given_back g)) AND t.max_live IS NOT NULL
    ORDER BY t.id
    FOR NO KEY UPDATE
), counted AS (
    UPDATE tenants t
    SET live = t.live - g.slots
    FROM given_back g
    WHERE t.id = g.tenant_id AND t.id = ANY (ARRAY(SELECT q.id FROM quota q))
), turned AS (
    UPDATE tenant_turns t
    SET in_use = greatest(t.in_use - g.slots, 0),
        -- A tenant at its quota has no turn; the release makes room.
        waits = t.waits OR (
            SELECT w.bot_id FROM bot_pool_queue w
            WHERE w.pool_name = t.pool_name AND w.tenant_id = t.tenant_id
            ORDER BY w.priority, w.arrival LIMIT 1) IS NOT NULL
    FROM given_back g
    WHERE t.pool_name = %(pool_name)s AND t.tenant_id = g.tenant_id
), slot AS (
    UPDATE bot_pool_slots s
    SET status = former.status,
        -- The error of a failed bot stays until the next bot.
        error_message = coalesce(former.error_message, s.error_message),
        error_at = CASE WHEN former.error_message IS NOT NULL
                        THEN coalesce(s.error_at, botpool_now()) ELSE s.error_at END,
        container_id = CASE WHEN former.container_gone THEN NULL ELSE s.container_id END,
        gone_container_id = CASE WHEN former.container_gone THEN s.container_id
                                 ELSE s.gone_container_id END,
        phase_at = botpool_now(),
        assigned_bot_id = NULL,
        assignment_id = NULL,
        run_id = NULL,
        run_started_at = NULL,
        poll_owner = NULL,
        standby = NULL,
        deployment_id = NULL,
        deployment_status = NULL,
        start_allowed_at = NULL,
        deployment_ended_at = NULL,
        leads_image = NULL,
        start_issued_at = NULL,
        stop_issued_at = NULL,
        delete_issued_at = NULL,
        unconfirmed_reason = NULL,
        unconfirmed_node = NULL,
        unconfirmed_since = NULL,
        abandoned_through = CASE WHEN former.abandoned THEN former.assignment_id
                                 ELSE s.abandoned_through END,
        last_released_at = botpool_now(),
        next_step_at = CASE WHEN former.status = 'error' THEN botpool_now() END,
        step_attempts = 0,
        lease_owner = NULL,
        lease_until = NULL,
        version = s.version + 1
    FROM former
    WHERE s.id = former.id
), assigned AS (
    UPDATE assignments a
    SET ended_at = botpool_now()
    FROM former
    WHERE a.id = former.assignment_id
), booking AS (
    -- A bot whose deployment failed keeps its booking for the retry.
    UPDATE bookings k
    SET ended_at = botpool_now()
    WHERE k.bot_id = ANY (ARRAY(
        SELECT former.assigned_bot_id FROM former
        WHERE former.bot_status IN ('DONE', 'FAILED', 'CANCELLED')))
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id, data)
    SELECT
        'slot.status', former.assigned_bot_id, former.id, former.assignment_id, former.slot_name,
        'releasing', former.status, former.reason, former.correlation_id,
        CASE WHEN former.abandoned
             THEN json_build_object('abandonedContainerId', former.container_id)
             WHEN former.container_gone
             THEN json_build_object('goneContainerId', former.container_id) END
    FROM former
    ORDER BY former.id
)
SELECT
    former.id AS slot_id, former.slot_name,
    CASE WHEN former.container_gone THEN NULL ELSE former.container_id END AS container_id,
    former.assigned_bot_id AS bot_id, former.bot_status, former.correlation_id,
    EXISTS (
        SELECT
        FROM bot_pool_slots w
        WHERE w.backend = former.backend AND w.phase IN ('waiting_for_image', 'waiting_for_start')
    ) AS others_wait,
    extract(epoch FROM botpool_now() - former.assigned_at)::float8 AS occupied_s,
    extract(epoch FROM botpool_now() - former.phase_at)::float8 AS releasing_s,
    former.tenant_id,
    former.tenant_id = ANY (ARRAY(SELECT q.id FROM quota q)) AS tenant_has_quota
FROM former
