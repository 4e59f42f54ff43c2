-- Add artifacts that an agent lists to its bot, unless its assignment has ended. An artifact that is
-- listed again replaces its entry. The transaction holds the lock of the bot's data.
WITH agent AS MATERIALIZED (
    SELECT s.assigned_bot_id AS bot_id, s.id AS slot_id, s.slot_name, s.assignment_id
    FROM assignments a
    JOIN bot_pool_slots s ON s.id = a.slot_id AND s.assignment_id = a.id
    WHERE a.id = %(assignment_id)s AND s.status IN ('deploying', 'busy')
    FOR KEY SHARE OF s
), sent AS MATERIALIZED (
    SELECT DISTINCT ON (e.kind, e.location) e.kind, e.location, e.size_bytes, e.content_type, e.n
    FROM unnest(
        %(kinds)s::text[], %(locations)s::text[], %(sizes)s::bigint[], %(content_types)s::text[]
    ) WITH ORDINALITY AS e (kind, location, size_bytes, content_type, n)
    ORDER BY e.kind, e.location, e.n DESC
), again AS (
    UPDATE bot_artifacts f
    SET size_bytes = sent.size_bytes, content_type = sent.content_type, at = botpool_now()
    FROM agent
    CROSS JOIN sent
    WHERE f.bot_id = agent.bot_id AND f.kind = sent.kind AND f.location = sent.location
    RETURNING f.number
), kept AS MATERIALIZED (
    SELECT agent.bot_id, (SELECT count(*) FROM bot_artifacts f WHERE f.bot_id = agent.bot_id) AS n
    FROM agent
), fresh AS MATERIALIZED (
    SELECT
        kept.bot_id, kept.n + row_number() OVER (ORDER BY sent.n) AS number, sent.kind,
        sent.location, sent.size_bytes, sent.content_type
    FROM kept
    CROSS JOIN sent
    WHERE NOT EXISTS (
        SELECT
        FROM bot_artifacts f
        WHERE f.bot_id = kept.bot_id AND f.kind = sent.kind AND f.location = sent.location)
), added AS (
    INSERT INTO bot_artifacts (bot_id, number, kind, location, size_bytes, content_type, at)
    SELECT
        fresh.bot_id, fresh.number, fresh.kind, fresh.location, fresh.size_bytes,
        fresh.content_type, botpool_now()
    FROM fresh
    WHERE fresh.number <= %(max_artifacts)s::integer
    RETURNING bot_id, number, kind, location, size_bytes, content_type
), written AS (
    INSERT INTO history (
        kind, bot_id, slot_id, assignment_id, slot_name, reason, correlation_id, data)
    SELECT
        'bot.artifact', added.bot_id, agent.slot_id, agent.assignment_id, agent.slot_name, %(reason)s,
        b.correlation_id,
        json_build_object(
            'number', added.number, 'kind', added.kind, 'location', added.location,
            'sizeBytes', added.size_bytes, 'contentType', added.content_type)
    FROM added
    CROSS JOIN agent
    JOIN bots b ON b.id = added.bot_id
    ORDER BY added.number
), counted AS (
    UPDATE bots b
    SET artifact_count = kept.n + (SELECT count(*) FROM added)
    FROM kept
    WHERE b.id = kept.bot_id AND EXISTS (SELECT FROM added)
)
SELECT number FROM added
UNION ALL
SELECT number FROM again
