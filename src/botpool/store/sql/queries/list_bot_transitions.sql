-- The transitions of a bot and its slots, oldest first, without the events of its agents.
SELECT h.at, h.kind, h.from_state, h.to_state, h.slot_name, h.reason, NULL::json AS data
FROM history h
WHERE h.bot_id = %(bot_id)s AND h.kind NOT LIKE 'agent.%%'
ORDER BY h.id
