-- The screenshots of a bot without their content, oldest first.
SELECT p.number, p.content_type, length(p.content) AS size_bytes, p.note, p.at
FROM bot_screenshots p
WHERE p.bot_id = %(bot_id)s
ORDER BY p.number
