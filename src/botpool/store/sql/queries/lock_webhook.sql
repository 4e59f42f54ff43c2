-- Lock a webhook, so that the reading of history and the results of attempts follow each other.
SELECT w.id
FROM webhooks w
WHERE w.id = %(webhook_id)s
FOR NO KEY UPDATE
