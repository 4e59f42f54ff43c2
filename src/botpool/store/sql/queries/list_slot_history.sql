-- A slot's history, newest first. A range with equal ends, in the order of its index: for an equal
-- number, a plan would rather walk down all of history, believing every slot to be in its last part.
SELECT h.at, h.kind, h.from_state, h.to_state, h.slot_name, h.reason, h.data, h.bot_id
FROM history h
WHERE h.slot_id BETWEEN %(slot_id)s AND %(slot_id)s
ORDER BY h.slot_id DESC, h.id DESC
LIMIT %(limit)s
