-- The tenant that owns a bot.
SELECT b.tenant_id FROM bots b WHERE b.id = %(bot_id)s
