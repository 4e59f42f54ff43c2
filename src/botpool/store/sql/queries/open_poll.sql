-- Record the open poll of a standby's agent, and say what the poll gets. The row changes only if the poll is the
-- first, or comes to another replica than before. During a hand-over, the first poll starts the time of the accept.
WITH slot AS (
    UPDATE bot_pool_slots s
    SET standby = 'ready',
        phase = CASE WHEN s.status = 'idle' THEN NULL ELSE s.phase END,
        phase_at = CASE WHEN s.status = 'idle' THEN botpool_now() ELSE s.phase_at END,
        poll_owner = %(owner)s,
        run_started_at = coalesce(s.run_started_at, botpool_now()),
        start_issued_at = coalesce(s.start_issued_at, botpool_now()),
        -- An agent that polls proves that the deployment finished and that the image is present.
        deployment_ended_at = coalesce(s.deployment_ended_at, botpool_now()),
        leads_image = NULL,
        resets = CASE WHEN s.status = 'idle' THEN 0 ELSE s.resets END,
        error_at = CASE WHEN s.status = 'idle' THEN NULL ELSE s.error_at END,
        error_message = CASE WHEN s.status = 'idle' THEN NULL ELSE s.error_message END,
        next_step_at = CASE
            WHEN s.status = 'idle' THEN NULL
            WHEN s.run_started_at IS NULL THEN botpool_now() + make_interval(secs => p.handover_timeout_s)
            ELSE s.next_step_at END,
        step_attempts = 0,
        version = s.version + 1
    FROM pools p
    WHERE s.id = %(slot_id)s
      AND s.run_id = %(run_id)s
      AND p.pool_name = s.pool_name
      AND (s.standby = 'starting' OR (s.standby = 'ready' AND s.poll_owner IS DISTINCT FROM %(owner)s))
      AND s.start_allowed_at IS NOT NULL
    RETURNING s.id, s.backend, s.image_host, s.image
), known AS (
    INSERT INTO known_images AS k (backend, image_host, image, last_started_at)
    SELECT slot.backend, slot.image_host, slot.image, botpool_now()
    FROM slot
    WHERE slot.image_host IS NOT NULL
      AND NOT EXISTS (
          SELECT
          FROM known_images f
          WHERE f.backend = slot.backend
            AND f.image_host = slot.image_host
            AND f.image = slot.image
            AND f.last_started_at > botpool_now() - make_interval(secs => %(image_fresh_s)s))
    ON CONFLICT (backend, image_host, image)
        DO UPDATE SET last_started_at = EXCLUDED.last_started_at
)
SELECT
    s.id AS slot_id, s.status, s.phase, s.standby, s.backend, s.assignment_id, a.boot_id,
    b.status AS bot_status, b.leave_by, b.finishing_at,
    EXISTS (
        SELECT
        FROM bot_pool_slots w
        WHERE w.backend = s.backend AND w.phase IN ('waiting_for_image', 'waiting_for_start') AND w.id <> s.id
    ) AS others_wait
FROM bot_pool_slots s
LEFT JOIN bots b ON b.id = s.assigned_bot_id
LEFT JOIN assignments a ON a.id = s.assignment_id
WHERE s.id = %(slot_id)s AND s.run_id = %(run_id)s
