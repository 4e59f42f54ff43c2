-- Record the bot that Botpool created for a moving bot.
UPDATE botpool_moved_bots SET botpool_bot_id = %(botpool_bot_id)s::bigint WHERE bot_id = %(bot_id)s::integer
