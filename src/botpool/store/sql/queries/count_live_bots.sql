-- Count a tenant's bots in slots, if the tenant has a quota; returns the former count if it was wrong. An
-- earlier statement has locked the count, so that no claim or release of the tenant is in progress.
WITH former AS MATERIALIZED (
    SELECT t.id, t.live FROM tenants t WHERE t.id = %(tenant_id)s AND t.max_live IS NOT NULL
), counted AS MATERIALIZED (
    SELECT count(*)::integer AS live
    FROM bot_pool_slots s
    WHERE s.tenant_id = %(tenant_id)s AND s.assigned_bot_id IS NOT NULL
)
UPDATE tenants t
SET live = counted.live
FROM former, counted
WHERE t.id = former.id AND former.live IS DISTINCT FROM counted.live
RETURNING former.live AS former, counted.live AS live
