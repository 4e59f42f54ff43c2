-- The oldest change in history, with its transaction.
SELECT h.id, h.xid::text::bigint AS transaction
FROM history h
ORDER BY h.xid, h.id
LIMIT 1
