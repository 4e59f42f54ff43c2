-- The commands of a bot, oldest first.
SELECT
    c.id, c.kind, c.data, c.at, c.delivered_at, c.acknowledged_at,
    CASE
        WHEN c.acknowledged_at IS NOT NULL THEN 'acknowledged'
        WHEN b.status IN ('DONE', 'FAILED', 'CANCELLED') THEN 'lost'
        WHEN c.delivered_at IS NOT NULL THEN 'delivered'
        ELSE 'waiting'
    END AS state
FROM bots b
JOIN bot_commands c ON c.bot_id = b.id
WHERE b.id = %(bot_id)s AND c.id > %(after)s
ORDER BY c.id
LIMIT %(limit)s
