-- The data of the last event of a kind that the agent of an assignment sent.
SELECT h.data
FROM assignments a
JOIN history h ON h.bot_id = a.bot_id AND h.assignment_id = a.id
WHERE a.id = %(assignment_id)s AND h.kind = %(kind)s
ORDER BY h.id DESC
LIMIT 1
