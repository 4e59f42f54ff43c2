-- The content of one screenshot of a bot.
SELECT p.content, p.content_type
FROM bot_screenshots p
WHERE p.bot_id = %(bot_id)s AND p.number = %(number)s
