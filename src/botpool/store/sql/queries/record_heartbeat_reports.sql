-- Record heartbeats that carry figures, as record_heartbeats.sql does. `progress_at` is the time at
-- which an agent's figures last changed; a repetition of the same figures does not count.
WITH agent AS MATERIALIZED (
    SELECT
        a.id, a.bot_id, b.leave_by, b.finishing_at, s.status AS slot_status,
        sent.progress::jsonb AS progress, sent.last_media_at
    FROM unnest(
        %(assignment_ids)s::bigint[], %(bot_ids)s::bigint[], %(progress)s::text[],
        %(last_media_at)s::timestamptz[])
        AS sent (assignment_id, bot_id, progress, last_media_at)
    JOIN assignments a ON a.id = sent.assignment_id AND a.bot_id = sent.bot_id
    JOIN bots b ON b.id = a.bot_id
    LEFT JOIN bot_pool_slots s ON s.id = a.slot_id AND s.assignment_id = a.id
    -- The array makes the plan use the index on the id, also when there are few rows.
    WHERE a.id = ANY (%(assignment_ids)s::bigint[])
), beat AS (
    INSERT INTO bot_heartbeats AS h (
        bot_id, assignment_id, last_at, progress, progress_at, last_media_at)
    SELECT DISTINCT ON (agent.bot_id)
        agent.bot_id, agent.id, botpool_now(), agent.progress,
        CASE WHEN agent.progress IS NOT NULL THEN botpool_now() END,
        -- The bot's clock may be fast: no media is from the future.
        least(agent.last_media_at, botpool_now())
    FROM agent
    WHERE agent.slot_status IN ('deploying', 'busy')
    ORDER BY agent.bot_id
    ON CONFLICT (bot_id) DO UPDATE
    SET assignment_id = EXCLUDED.assignment_id,
        last_at = EXCLUDED.last_at,
        progress = coalesce(EXCLUDED.progress, h.progress),
        progress_at = CASE
            WHEN EXCLUDED.progress <> h.progress OR h.progress IS NULL THEN EXCLUDED.progress_at
            ELSE h.progress_at END,
        last_media_at = greatest(EXCLUDED.last_media_at, h.last_media_at)
)
SELECT
    agent.id AS assignment_id, agent.bot_id, agent.leave_by, agent.finishing_at, agent.slot_status,
    EXISTS (
        SELECT FROM bot_commands c WHERE c.bot_id = agent.bot_id AND c.acknowledged_at IS NULL
    ) AS has_commands
FROM agent
