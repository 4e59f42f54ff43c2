-- Slots whose tenant differs from that of their bot.
-- Meaning: each slot with a bot has the tenant of the bot
-- Remedy: Botpool never writes this state. Back up the database and report it.
-- Kind: always
SELECT s.slot_name AS slot, s.tenant_id AS slot_tenant, b.tenant_id AS bot_tenant
FROM bot_pool_slots s
JOIN bots b ON b.id = s.assigned_bot_id
WHERE s.tenant_id <> b.tenant_id
