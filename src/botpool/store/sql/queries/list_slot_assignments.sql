-- A page of a slot's assignments, newest first. An assignment whose deployment failed shows that failure,
-- also if its bot ran later; otherwise the end of a bot belongs to its last assignment. For BETWEEN with
-- equal bounds, see list_slot_history.
SELECT
    a.id AS assignment_id, a.bot_id, b.status AS bot_status, a.assigned_at AS claimed_at,
    a.running_at AS started_at,
    CASE WHEN a.failure IS NULL AND b.assignment_id = a.id THEN b.ended_at
         ELSE a.ended_at END AS ended_at,
    a.ended_at AS released_at,
    CASE WHEN a.failure IS NOT NULL THEN 'deploy_failed'
         WHEN b.assignment_id = a.id THEN b.failure_code END AS failure_code,
    CASE WHEN a.failure IS NOT NULL THEN a.failure
         WHEN b.assignment_id = a.id THEN b.failure_reason END AS failure_reason
FROM assignments a
JOIN bots b ON b.id = a.bot_id
WHERE a.slot_id BETWEEN %(slot_id)s AND %(slot_id)s AND a.id < %(before)s::bigint
ORDER BY a.slot_id DESC, a.id DESC
LIMIT %(limit)s
