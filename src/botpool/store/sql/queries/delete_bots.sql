-- The bots themselves, whose assignments went in the statement before.
DELETE FROM bots WHERE id = ANY(%(bot_ids)s) RETURNING id
