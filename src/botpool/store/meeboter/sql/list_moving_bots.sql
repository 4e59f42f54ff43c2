-- List the bots that an interrupted import took off the queue but did not create in Botpool.
SELECT
    m.bot_id, m.priority,
    -- At least a minute: the interruption must not cost the bot its place.
    greatest((extract(epoch FROM m.timeout_at - now()) * 1000)::bigint, 60000) AS remaining_ms,
    m.display_name, m.meeting, m.details
FROM botpool_moved_bots m
WHERE m.botpool_bot_id IS NULL
ORDER BY m.priority, m.bot_id
