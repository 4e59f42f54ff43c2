-- Take a slot without a live bot away from Meeboter, which assigns only idle slots. A slot that Meeboter
-- still has to release is left alone: the release would make it idle again.
UPDATE meeboter_slots s
SET status = %(status)s
WHERE s.id = %(slot_id)s::integer
  AND lower(s.status) IN ('idle', 'error', 'botpool', 'botpool-duplicate')
  AND (
      s.assigned_bot_id IS NULL
      OR EXISTS (
          SELECT FROM meeboter_bots b
          WHERE b.id = s.assigned_bot_id AND upper(b.status) IN ('DONE', 'FATAL', 'FAILED', 'CANCELLED')))
RETURNING s.id
