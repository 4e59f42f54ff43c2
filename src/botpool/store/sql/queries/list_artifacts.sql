-- The artifacts of a bot, in the order in which its agent listed them.
SELECT f.kind, f.location, f.size_bytes, f.content_type, f.at
FROM bot_artifacts f
WHERE f.bot_id = %(bot_id)s
ORDER BY f.number
