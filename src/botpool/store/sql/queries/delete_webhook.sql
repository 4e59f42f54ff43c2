-- Delete a webhook and its deliveries.
DELETE FROM webhooks WHERE id = %(webhook_id)s RETURNING id
