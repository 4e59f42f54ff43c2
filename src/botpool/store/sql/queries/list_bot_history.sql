-- The history of a bot, oldest first.
SELECT h.at, h.kind, h.from_state, h.to_state, h.slot_name, h.reason, h.data
FROM history h
WHERE h.bot_id = %(bot_id)s
ORDER BY h.id
