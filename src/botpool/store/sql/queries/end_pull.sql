-- Record that the image of a rollout is present: its container was started without a bot. The canary begins, with
-- the digest that was started, and the slot stops its container. Fenced.
WITH slot AS (
    UPDATE bot_pool_slots s
    SET standby = 'stopping',
        phase = NULL,
        phase_at = botpool_now(),
        deployment_ended_at = coalesce(s.deployment_ended_at, botpool_now()),
        leads_image = NULL,
        stop_issued_at = NULL,
        next_step_at = botpool_now(),
        step_attempts = 0,
        version = s.version + 1
    WHERE s.id = %(slot_id)s
      AND s.version = %(version)s
      AND s.status = 'idle'
      AND s.standby = 'pulling'
    RETURNING s.id, s.slot_name, s.container_id, s.run_id, s.backend, s.image_host, s.image
), known AS (
    INSERT INTO known_images AS k (backend, image_host, image, last_started_at)
    SELECT slot.backend, slot.image_host, slot.image, botpool_now()
    FROM slot
    WHERE slot.image_host IS NOT NULL
    ON CONFLICT (backend, image_host, image)
        DO UPDATE SET last_started_at = EXCLUDED.last_started_at
), rollout AS (
    UPDATE rollouts r
    SET state = 'canary', canary_at = botpool_now(), evaluate_after = NULL, waits_for = %(waits_for)s
    FROM slot
    WHERE r.pull_run_id = slot.run_id AND r.pull_slot_id = slot.id AND r.state = 'pulling'
    RETURNING r.id, r.pool_name, r.new_revision_id
), revision AS (
    UPDATE revisions v SET image = slot.image FROM rollout, slot WHERE v.id = rollout.new_revision_id
), written AS (
    INSERT INTO history (kind, from_state, to_state, reason, data)
    SELECT
        'pool.rollout', 'pulling', 'canary', %(reason)s,
        json_build_object('platform', rollout.pool_name, 'rolloutId', rollout.id, 'image', slot.image)
    FROM rollout, slot
)
SELECT
    slot.id AS slot_id, slot.slot_name, slot.container_id,
    EXISTS (
        SELECT
        FROM bot_pool_slots w
        WHERE w.backend = slot.backend AND w.phase IN ('waiting_for_image', 'waiting_for_start')
    ) AS others_wait
FROM slot
