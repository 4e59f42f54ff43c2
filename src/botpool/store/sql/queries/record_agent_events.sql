-- Write an agent's events to its bot's history, unless they exceed a limit of the assignment: then none
-- of them. No row if the assignment has ended. The rate is a token bucket: `events_full_at` is the time
-- at which the bucket is full again. The update of the assignment serializes concurrent calls of one
-- agent, so that the limits are exact; the columns of the result may be older.
WITH agent AS MATERIALIZED (
    SELECT
        s.id AS slot_id, s.slot_name, s.assignment_id, s.assigned_bot_id AS bot_id,
        cardinality(%(kinds)s::text[]) AS events,
        (SELECT coalesce(sum(octet_length(e.data)), 0) FROM unnest(%(data)s::text[]) AS e (data))
            AS bytes,
        make_interval(secs => 60.0 / greatest(%(per_minute)s::integer, 1)) AS interval
    FROM assignments a
    JOIN bot_pool_slots s ON s.id = a.slot_id AND s.assignment_id = a.id
    WHERE a.id = %(assignment_id)s AND s.status IN ('deploying', 'busy')
    FOR KEY SHARE OF s
), counted AS (
    UPDATE assignments a
    SET event_count = coalesce(a.event_count, 0) + agent.events,
        event_bytes = coalesce(a.event_bytes, 0) + agent.bytes,
        events_full_at = greatest(a.events_full_at, botpool_now()) + agent.events * agent.interval
    FROM agent
    WHERE a.id = agent.assignment_id
      AND coalesce(a.event_count, 0) + agent.events <= %(max_events)s::integer
      AND coalesce(a.event_bytes, 0) + agent.bytes <= %(max_bytes)s::bigint
      AND (
          %(per_minute)s::integer = 0
          OR greatest(a.events_full_at, botpool_now()) + agent.events * agent.interval
             <= botpool_now() + %(burst)s::integer * agent.interval)
    RETURNING a.id
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, reason, correlation_id, data)
    SELECT
        'agent.' || e.kind, agent.bot_id, agent.slot_id, agent.assignment_id, agent.slot_name,
        %(reason)s, b.correlation_id, e.data::json
    FROM agent
    JOIN counted ON counted.id = agent.assignment_id
    JOIN bots b ON b.id = agent.bot_id
    CROSS JOIN unnest(%(kinds)s::text[], %(data)s::text[]) WITH ORDINALITY AS e (kind, data, n)
    ORDER BY e.n
    RETURNING id
)
SELECT
    (SELECT count(*) FROM written) AS recorded,
    EXISTS (SELECT FROM counted) AS accepted,
    coalesce(a.event_count, 0) + agent.events > %(max_events)s::integer AS too_many,
    coalesce(a.event_bytes, 0) + agent.bytes > %(max_bytes)s::bigint AS too_large,
    extract(epoch FROM greatest(a.events_full_at, botpool_now()) - botpool_now()
        + (agent.events - %(burst)s::integer) * agent.interval)::float8 AS wait_s
FROM agent
JOIN assignments a ON a.id = agent.assignment_id
