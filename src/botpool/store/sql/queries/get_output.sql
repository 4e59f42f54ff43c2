-- The kept output of a bot's run.
SELECT o.output, o.is_whole
FROM bot_outputs o
WHERE o.bot_id = %(bot_id)s AND o.assignment_id = %(assignment_id)s
