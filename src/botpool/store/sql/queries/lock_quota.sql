-- Lock the count of a tenant's live bots until the transaction ends.
SELECT FROM tenants t WHERE t.id = %(tenant_id)s FOR NO KEY UPDATE
