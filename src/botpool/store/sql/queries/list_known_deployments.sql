-- List the runs of a backend that slots have. Read after the backend has listed its runs: an ended run that is not
-- listed here was released.
SELECT s.deployment_id
FROM bot_pool_slots s
WHERE s.backend = %(backend)s AND s.deployment_id IS NOT NULL
