-- Record that the deployment of a start finished: its image is known on its image host, even if the
-- container dies, the slot no longer leads the pull, and the container's grace begins. Fenced.
WITH slot AS (
    UPDATE bot_pool_slots
    SET deployment_ended_at = botpool_now(),
        deployment_status = 'finished',
        leads_image = NULL,
        version = version + 1
    WHERE id = %(slot_id)s
      AND assignment_id IS NOT DISTINCT FROM %(assignment_id)s
      AND version = %(version)s
      AND (status = 'deploying' OR standby IN ('starting', 'pulling'))
      AND deployment_ended_at IS NULL
    RETURNING id, backend, image_host, image, version
), known AS (
    INSERT INTO known_images AS k (backend, image_host, image, last_started_at)
    SELECT slot.backend, slot.image_host, slot.image, botpool_now()
    FROM slot
    WHERE slot.image_host IS NOT NULL
    ON CONFLICT (backend, image_host, image)
        DO UPDATE SET last_started_at = EXCLUDED.last_started_at
)
SELECT slot.version FROM slot
