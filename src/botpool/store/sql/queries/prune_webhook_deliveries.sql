-- Delete a batch of finished deliveries: old ones, and those beyond the newest of each webhook.
DELETE FROM webhook_deliveries
WHERE id = ANY (ARRAY(
    SELECT old.id
    FROM webhooks w
    CROSS JOIN LATERAL (
        SELECT d.id
        FROM webhook_deliveries d
        WHERE d.webhook_id = w.id AND d.status <> 'pending'
          AND (
              d.created_at < botpool_now() - make_interval(days => %(days)s)
              OR d.id <= (
                  SELECT newest.id
                  FROM webhook_deliveries newest
                  WHERE newest.webhook_id = w.id AND newest.status <> 'pending'
                  ORDER BY newest.id DESC
                  OFFSET %(max_kept)s
                  LIMIT 1))
    ) AS old
    LIMIT %(limit)s))
RETURNING id
