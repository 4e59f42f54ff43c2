-- Add a command to a bot that has not ended and has room for it. The transaction holds the lock of the
-- bot's data, so that ids are in the order of the commits.
INSERT INTO bot_commands AS c (bot_id, kind, data, at)
SELECT b.id, %(kind)s, %(data)s::json, botpool_now()
FROM bots b
WHERE b.id = %(bot_id)s
  AND b.status NOT IN ('DONE', 'FAILED', 'CANCELLED')
  AND (
      SELECT count(*) FROM bot_commands o WHERE o.bot_id = b.id AND o.acknowledged_at IS NULL
  ) < %(max_open)s::integer
  AND (SELECT count(*) FROM bot_commands o WHERE o.bot_id = b.id) < %(max_commands)s::integer
RETURNING c.id, c.kind, c.data, 'waiting' AS state, c.at, c.delivered_at, c.acknowledged_at
