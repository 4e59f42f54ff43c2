-- Delete bots whose assignments prune_bots has deleted.
DELETE FROM bots WHERE id = ANY(%(bot_ids)s) RETURNING id
