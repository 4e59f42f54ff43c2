-- All tenants, or one by its name, each with its bots in slots and in queues.
SELECT
    t.id, t.name, t.weight, t.max_live, t.max_queued, t.max_booked, t.posts_per_minute, t.created_at,
    coalesce(live.bots, 0) AS live, coalesce(queued.bots, 0) AS queued
FROM tenants t
LEFT JOIN (
    SELECT s.tenant_id, count(*) AS bots
    FROM bot_pool_slots s
    WHERE s.assigned_bot_id IS NOT NULL
    GROUP BY s.tenant_id
) AS live ON live.tenant_id = t.id
LEFT JOIN (
    SELECT q.tenant_id, count(*) AS bots
    FROM bot_pool_queue q
    GROUP BY q.tenant_id
) AS queued ON queued.tenant_id = t.id
WHERE %(name)s::text IS NULL OR t.name = %(name)s
ORDER BY t.id
