-- The oldest change that is still kept, by the transaction that wrote it.
SELECT h.id, h.xid::text AS xid
FROM history h
ORDER BY h.xid, h.id
LIMIT 1
