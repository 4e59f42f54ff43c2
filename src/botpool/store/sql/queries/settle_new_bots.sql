-- Make the bots that enqueue_bots wrote in this transaction QUEUED unless the match gave them a slot.
-- Returns the bots and, for queued ones, their positions in their tenant's queue; a position behind a thousand bots is null.
-- enqueue_bots leaves the ids in a setting of the transaction, so that all statements travel in one
-- round trip. The ids are compared as arrays: a join that was planned with an empty queue would scan
-- the whole queue.
-- A bot that would exceed the queue quota of its tenant is deleted again, with its history and its
-- idempotency key; its row has the quota. enqueue_bots has locked the tenant.
WITH new_bot AS MATERIALIZED (
    SELECT n.bot_id
    FROM unnest(nullif(current_setting('botpool.new_bot_ids', true), '')::bigint[]) AS n (bot_id)
), unsettled AS MATERIALIZED (
    SELECT q.bot_id, q.arrival, q.pool_name, q.tenant_id, q.priority, q.queued_at
    FROM bot_pool_queue q
    WHERE q.bot_id = ANY (ARRAY(SELECT new_bot.bot_id FROM new_bot))
), refused AS MATERIALIZED (
    SELECT ranked.bot_id, ranked.max_queued
    FROM (
        SELECT
            u.bot_id, t.max_queued, queue.bots,
            row_number() OVER (PARTITION BY u.tenant_id ORDER BY u.bot_id) AS nth
        FROM unsettled u
        JOIN tenants t ON t.id = u.tenant_id AND t.max_queued IS NOT NULL
        CROSS JOIN LATERAL (
            SELECT count(*) AS bots
            FROM pools p
            CROSS JOIN LATERAL (
                SELECT
                FROM bot_pool_queue o
                WHERE o.pool_name = p.pool_name
                  AND o.tenant_id = t.id
                  AND o.bot_id <> ALL (ARRAY(SELECT n.bot_id FROM unsettled n))
                LIMIT t.max_queued
            ) AS waits
        ) AS queue
    ) AS ranked
    WHERE ranked.bots + ranked.nth > ranked.max_queued
), unqueued AS (
    DELETE FROM bot_pool_queue q WHERE q.bot_id = ANY (ARRAY(SELECT refused.bot_id FROM refused))
), unkeyed AS (
    -- The bots of this transaction have the newest keys.
    DELETE FROM idempotency_keys k
    WHERE k.created_at = (SELECT min(unsettled.queued_at) FROM unsettled)
      AND k.bot_id = ANY (ARRAY(SELECT refused.bot_id FROM refused))
), unwritten AS (
    DELETE FROM history h WHERE h.bot_id = ANY (ARRAY(SELECT refused.bot_id FROM refused))
), uncreated AS (
    DELETE FROM bots b WHERE b.id = ANY (ARRAY(SELECT refused.bot_id FROM refused))
), waiting AS MATERIALIZED (
    SELECT
        q.bot_id, q.pool_name, q.tenant_id, q.priority, q.queued_at,
        (SELECT min(new_bot.bot_id) FROM new_bot) AS first_id,
        row_number() OVER (PARTITION BY q.tenant_id ORDER BY q.priority, q.arrival) AS nth
    FROM unsettled q
    WHERE q.bot_id <> ALL (ARRAY(SELECT refused.bot_id FROM refused))
), before AS MATERIALIZED (
    -- The caller holds the pool's lock: bots that waited before have lower arrival numbers.
    SELECT
        each.tenant_id, each.priority,
        (
            SELECT count(*)
            FROM (
                SELECT
                FROM bot_pool_queue o
                WHERE o.pool_name = each.pool_name
                  AND o.tenant_id = each.tenant_id
                  AND (o.priority, o.arrival) < (each.priority, each.first_id)
                  AND o.arrival < each.first_id
                LIMIT 1000
            ) AS counted
        ) AS bots
    FROM (SELECT DISTINCT w.pool_name, w.tenant_id, w.priority, w.first_id FROM waiting w) AS each
), queued AS (
    -- One statement queued all of them, so they have one time.
    UPDATE bots b
    SET status = 'QUEUED', queued_at = (SELECT min(waiting.queued_at) FROM waiting)
    WHERE b.id = ANY (ARRAY(SELECT waiting.bot_id FROM waiting))
    RETURNING b.id, b.correlation_id
), held_back AS MATERIALIZED (
    -- Why each bot waits. A count that is unknown leaves no room.
    SELECT
        w.bot_id,
        CASE
            WHEN (
                SELECT t.max_live <= coalesce(t.live, t.max_live) FROM tenants t WHERE t.id = w.tenant_id)
            THEN %(quota_reason)s::text
            WHEN (
                SELECT CASE WHEN p.egress IS NOT NULL THEN botpool_assignable_bots(p.egress) <= 0 END
                FROM pools p WHERE p.pool_name = w.pool_name)
            THEN %(paced_reason)s::text
            ELSE %(reason)s::text
        END AS reason
    FROM waiting w
), written AS (
    INSERT INTO history (kind, bot_id, from_state, to_state, reason, correlation_id)
    SELECT 'bot.status', queued.id, 'PENDING', 'QUEUED', held_back.reason, queued.correlation_id
    FROM queued
    JOIN held_back ON held_back.bot_id = queued.id
    ORDER BY queued.id
)
SELECT
    b.id AS bot_id,
    CASE WHEN waiting.bot_id IS NULL THEN b.status ELSE 'QUEUED' END AS status,
    b.slot_name, b.container_id, b.attempts, b.created_at,
    coalesce(waiting.queued_at, b.queued_at) AS queued_at, b.assigned_at,
    CASE WHEN before.bots < 1000 THEN before.bots + waiting.nth END AS position,
    refused.max_queued AS exceeded_quota, held_back.reason AS queued_reason
FROM bots b
LEFT JOIN held_back ON held_back.bot_id = b.id
LEFT JOIN refused ON refused.bot_id = b.id
LEFT JOIN waiting ON waiting.bot_id = b.id
LEFT JOIN before ON before.tenant_id = waiting.tenant_id AND before.priority = waiting.priority
WHERE b.id = ANY (ARRAY(SELECT new_bot.bot_id FROM new_bot))
