-- List the runs of a backend that slots have. Read before the backend is asked: a run that is not
-- listed here was released before, or is being prepared.
SELECT s.deployment_id
FROM bot_pool_slots s
WHERE s.backend = %(backend)s AND s.deployment_id IS NOT NULL
