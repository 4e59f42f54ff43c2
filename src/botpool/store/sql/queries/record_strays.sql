-- Record since when containers belong to no slot, forget the others, and return the containers that
-- have been strays for long enough. A container is no stray if a slot has it, or if it has the name of
-- a slot whose container is being created.
WITH found AS MATERIALIZED (
    SELECT f.container_id
    FROM unnest(%(container_ids)s::text[], %(names)s::text[]) AS f (container_id, name)
    WHERE NOT EXISTS (
              SELECT
              FROM slot_identities i
              WHERE i.backend = %(backend)s AND i.container_id = f.container_id)
      -- The id of a container that is being created or recreated is not written yet.
      AND (
          f.name IN (
              SELECT s.slot_name
              FROM bot_pool_slots s
              WHERE s.backend = %(backend)s
                AND (s.container_id IS NULL OR s.status IN ('deploying', 'error')))) IS NOT TRUE
), forgotten AS (
    DELETE FROM strays t
    WHERE t.backend = %(backend)s
      AND NOT EXISTS (SELECT FROM found WHERE found.container_id = t.container_id)
), recorded AS (
    INSERT INTO strays (backend, container_id, first_observed_at)
    SELECT %(backend)s, found.container_id, botpool_now()
    FROM found
    ORDER BY found.container_id
    ON CONFLICT (backend, container_id) DO NOTHING
)
SELECT t.container_id, botpool_newest_assignment() AS newest_assignment_id
FROM strays t
JOIN found ON found.container_id = t.container_id
WHERE t.backend = %(backend)s
  AND t.first_observed_at <= botpool_now() - make_interval(secs => %(age_s)s)
ORDER BY t.container_id
