-- Tenants with a quota of live bots.
SELECT t.id FROM tenants t WHERE t.max_live IS NOT NULL ORDER BY t.id
