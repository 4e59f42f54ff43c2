-- Give a turn to each tenant that waits in a pool and is below its quota, if several tenants wait; end
-- the other turns. Counts the slots that each tenant uses. The caller holds the pool's lock. A tenant
-- that begins to wait starts at the larger of its own pass and the smallest of those that wait; a
-- tenant without a pass goes before equals. The recursion reads one index entry per waiting tenant.
WITH RECURSIVE next_tenant AS (
    (
        SELECT q.tenant_id FROM bot_pool_queue q WHERE q.pool_name = %(pool_name)s
        ORDER BY q.tenant_id LIMIT 1)
    UNION ALL
    SELECT (
        SELECT q.tenant_id FROM bot_pool_queue q
        WHERE q.pool_name = %(pool_name)s AND q.tenant_id > n.tenant_id
        ORDER BY q.tenant_id LIMIT 1)
    FROM next_tenant n
    WHERE n.tenant_id IS NOT NULL
), waiting AS MATERIALIZED (
    SELECT n.tenant_id, count(*) OVER () > 1 AS several
    FROM next_tenant n
    WHERE n.tenant_id IS NOT NULL
), used AS MATERIALIZED (
    SELECT s.tenant_id, count(*)::integer AS slots
    FROM slot_identities i
    JOIN bot_pool_slots s ON s.id = i.slot_id
    WHERE i.pool_name = %(pool_name)s AND s.assigned_bot_id IS NOT NULL
    GROUP BY s.tenant_id
), former AS MATERIALIZED (
    SELECT t.tenant_id, t.pass, t.waits FROM tenant_turns t WHERE t.pool_name = %(pool_name)s
), smallest AS MATERIALIZED (
    SELECT coalesce(
        (SELECT min(f.pass) FROM former f WHERE f.waits),
        (SELECT min(f.pass) FROM former f JOIN waiting w ON w.tenant_id = f.tenant_id),
        0) AS pass
), entitled AS MATERIALIZED (
    SELECT
        w.tenant_id, coalesce(u.slots, 0) AS in_use, n.weight,
        CASE
            WHEN f.waits THEN f.pass
            WHEN f.pass IS NULL THEN s.pass - 0.000001
            ELSE greatest(f.pass, s.pass)
        END AS pass
    FROM waiting w
    CROSS JOIN smallest s
    JOIN tenants n ON n.id = w.tenant_id
    LEFT JOIN used u ON u.tenant_id = w.tenant_id
    LEFT JOIN former f ON f.tenant_id = w.tenant_id
    WHERE w.several AND (n.max_live IS NULL OR n.live < n.max_live)
), begun AS (
    INSERT INTO tenant_turns AS t (pool_name, tenant_id, in_use, weight, pass, waits)
    SELECT %(pool_name)s, e.tenant_id, e.in_use, e.weight, e.pass, true
    FROM entitled e
    ON CONFLICT (pool_name, tenant_id) DO UPDATE
    SET in_use = EXCLUDED.in_use, weight = EXCLUDED.weight, pass = EXCLUDED.pass, waits = true
    WHERE (t.in_use, t.weight, t.pass, t.waits)
        IS DISTINCT FROM (EXCLUDED.in_use, EXCLUDED.weight, EXCLUDED.pass, true)
), ended AS (
    UPDATE tenant_turns t
    SET waits = false
    WHERE t.pool_name = %(pool_name)s
      AND t.waits
      AND NOT EXISTS (SELECT FROM entitled e WHERE e.tenant_id = t.tenant_id)
)
UPDATE pools p
SET turns_counted_at = botpool_now()
WHERE p.pool_name = %(pool_name)s
