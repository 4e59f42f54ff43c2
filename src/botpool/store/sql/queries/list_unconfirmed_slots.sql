-- Slots whose stop cannot be confirmed, the longest first.
SELECT s.slot_name, s.unconfirmed_reason AS reason, s.unconfirmed_since AS since
FROM bot_pool_slots s
WHERE s.unconfirmed_reason IS NOT NULL
ORDER BY s.unconfirmed_since, s.id
