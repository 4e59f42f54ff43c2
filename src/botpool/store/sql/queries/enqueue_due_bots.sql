-- Put the scheduled bots of a pool that are due into its queue, still PENDING. The caller holds the
-- pool's lock, matches and settles the bots in the same transaction. Arrival numbers are drawn under
-- the lock: a bot that was created last week does not overtake. The queue timeout begins now. A bot
-- that another transaction is changing is skipped; the next poll takes it.
WITH due AS MATERIALIZED (
    SELECT b.id, k.reserved
    FROM bookings k
    JOIN bots b ON b.id = k.bot_id
    WHERE k.pool_name = %(pool_name)s
      AND k.due_at IS NULL
      AND k.ended_at IS NULL
      AND k.starts_at <= botpool_now()
      AND b.status = 'SCHEDULED'
    ORDER BY b.join_at, b.id
    LIMIT %(limit)s
    FOR UPDATE OF b SKIP LOCKED
), numbered AS MATERIALIZED (
    SELECT due.id, due.reserved, nextval('bots_id_seq') AS arrival FROM due
), bot AS (
    UPDATE bots b
    SET status = 'PENDING', arrival = n.arrival
    FROM numbered n
    WHERE b.id = n.id
    RETURNING
        b.id, b.tenant_id, b.priority, b.queue_timeout_ms, b.correlation_id, b.join_at, n.arrival,
        n.reserved
), booking AS (
    UPDATE bookings k SET due_at = botpool_now()
    FROM numbered n
    WHERE k.bot_id = n.id
), waiting AS (
    INSERT INTO bot_pool_queue (
        bot_id, pool_name, tenant_id, priority, queued_at, timeout_at, due_number, reserved_join_at)
    SELECT
        bot.id, %(pool_name)s, bot.tenant_id, bot.priority, botpool_now(),
        botpool_now() + make_interval(secs => bot.queue_timeout_ms / 1000.0), bot.arrival,
        CASE WHEN bot.reserved THEN bot.join_at END
    FROM bot
), written AS (
    INSERT INTO history (kind, bot_id, from_state, to_state, reason, correlation_id)
    SELECT 'bot.status', bot.id, 'SCHEDULED', 'PENDING', %(reason)s, bot.correlation_id
    FROM bot
    ORDER BY bot.arrival
)
SELECT bot.id AS bot_id, %(pool_name)s::text AS pool_name, bot.correlation_id FROM bot
