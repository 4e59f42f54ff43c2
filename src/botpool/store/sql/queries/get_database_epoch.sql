-- The newest epoch of the database, and the evidence that another one has begun since.
SELECT
    e.number, e.began_at, e.reason, e.first_assignment_id,
    extract(epoch FROM botpool_now() - e.began_at)::float8 AS age_s,
    botpool_new_epoch_evidence() AS evidence
FROM database_epochs e
ORDER BY e.number DESC
LIMIT 1
