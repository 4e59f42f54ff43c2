-- Record that a description was written; the next one may follow at once.
UPDATE slot_descriptions
SET state = %(state)s, released_at = %(released_at)s, hold_until = botpool_now()
WHERE slot_id = %(slot_id)s AND hold_until = %(hold_until)s
