-- Cancel a bot whose failed deployment is being released, so that it is not queued again. The slot
-- continues its release. The slot is locked before the bot.
WITH held AS MATERIALIZED (
    SELECT s.id, s.slot_name, s.assignment_id, s.assigned_bot_id
    FROM bot_pool_slots s
    WHERE s.assigned_bot_id = %(bot_id)s AND s.status = 'releasing'
    FOR UPDATE
), bot AS (
    UPDATE bots b
    SET status = 'CANCELLED', ended_at = botpool_now()
    FROM held
    -- IS TRUE keeps the planner on the primary key, also with a plan made for a small table.
    WHERE b.id = held.assigned_bot_id AND (b.status = 'DEPLOYING') IS TRUE
    RETURNING b.id, b.pool_name, b.correlation_id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, from_state, to_state, reason,
        correlation_id)
    SELECT
        'bot.status', bot.id, held.id, held.assignment_id, held.slot_name, 'DEPLOYING',
        'CANCELLED', %(reason)s, bot.correlation_id
    FROM bot
    JOIN held ON held.assigned_bot_id = bot.id
)
SELECT bot.id AS bot_id, bot.pool_name, bot.correlation_id FROM bot
