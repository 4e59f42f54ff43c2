-- Tenants whose count of live bots differs from their slots.
-- Meaning: the count of each tenant's live bots, where it has a quota, matches its slots
-- Remedy: The next recovery pass counts again. If the count differs once more, report it.
-- Kind: momentary
SELECT t.name AS tenant, t.live AS counted, used.slots
FROM tenants t
CROSS JOIN LATERAL (
    SELECT count(*) AS slots
    FROM bot_pool_slots s
    WHERE s.tenant_id = t.id AND s.assigned_bot_id IS NOT NULL
) AS used
WHERE t.max_live IS NOT NULL AND t.live IS DISTINCT FROM used.slots
