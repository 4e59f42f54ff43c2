-- List the bots in the queue, or the bots in slots.
SELECT q.bot_id, NULL::bigint AS assignment_id
FROM bot_pool_queue q
WHERE %(queued)s
UNION ALL
SELECT s.assigned_bot_id AS bot_id, s.assignment_id
FROM bot_pool_slots s
WHERE NOT %(queued)s AND s.assigned_bot_id IS NOT NULL
