-- A page of a pool's bots since some time ago, each with its assignments, by arrival and attempt.
SELECT
    b.id AS bot_id, b.created_at, b.priority, b.queue_timeout_ms, b.started_at,
    a.assigned_at, a.running_at, a.ended_at AS released_at, a.slot_name, a.warm, false AS hot,
    botpool_now() AS now
FROM (
    SELECT c.id, c.created_at, c.priority, c.queue_timeout_ms, c.started_at
    FROM bots c
    WHERE c.pool_name = %(pool_name)s
      AND c.id > %(after)s
      AND c.id >= botpool_first_bot_since(
          botpool_now() - make_interval(secs => %(replay_s)s::double precision))
    ORDER BY c.id
    LIMIT %(limit)s::integer
) AS b
LEFT JOIN assignments a ON a.bot_id = b.id
ORDER BY b.id, a.id
