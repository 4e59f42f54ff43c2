-- Delete the row of a duplicate whose application is gone.
DELETE FROM meeboter_slots WHERE id = %(slot_id)s::integer
