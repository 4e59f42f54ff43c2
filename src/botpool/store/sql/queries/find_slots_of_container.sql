-- Find the slots whose container has an id; one for each backend at most.
SELECT i.slot_id
FROM backends k
JOIN slot_identities i ON i.backend = k.name AND i.container_id = %(container_id)s
ORDER BY i.slot_id
