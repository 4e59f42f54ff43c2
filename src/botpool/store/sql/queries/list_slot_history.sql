-- A slot's history, newest first.
SELECT h.at, h.kind, h.from_state, h.to_state, h.slot_name, h.reason, h.data, h.bot_id
FROM history h
WHERE h.slot_id = %(slot_id)s
ORDER BY h.id DESC
LIMIT %(limit)s
