-- Idle slots above a lowered maximum, highest numbers first. The pool's lock is held.
SELECT s.id AS slot_id
FROM bot_pool_slots s
WHERE s.platform = %(platform)s AND s.status IN ('idle', 'error')
ORDER BY s.number DESC
LIMIT greatest(
    (SELECT count(*) FROM bot_pool_slots c WHERE c.platform = %(platform)s AND c.status <> 'deleting')
    - (SELECT p.max_size FROM pools p WHERE p.platform = %(platform)s), 0)
