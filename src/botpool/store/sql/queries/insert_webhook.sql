-- Create a webhook that gets the events from now on; no row if its tenant has too many. The transaction
-- holds the lock of webhooks.
INSERT INTO webhooks (tenant_id, url, description, events, sealed_secret, created_by)
SELECT %(tenant_id)s::bigint, %(url)s, %(description)s, %(events)s::text[], %(sealed_secret)s, %(created_by)s
WHERE (
    SELECT count(*) FROM webhooks w WHERE w.tenant_id IS NOT DISTINCT FROM %(tenant_id)s::bigint
) < %(max_webhooks)s::integer
RETURNING id
