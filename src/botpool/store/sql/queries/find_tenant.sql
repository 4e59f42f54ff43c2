-- The id of a tenant, by its name.
SELECT t.id FROM tenants t WHERE t.name = %(name)s
