-- Take a bot off Meeboter's queue and keep it as a moving bot.
WITH taken AS (
    DELETE FROM meeboter_queue
    WHERE bot_id = %(bot_id)s::integer
      -- Meeboter queued a bot again that was moved before: Botpool knows it, and it may have ended there.
      AND NOT EXISTS (
          SELECT FROM botpool_moved_bots m
          WHERE m.bot_id = %(bot_id)s::integer AND m.botpool_bot_id IS NOT NULL)
    RETURNING bot_id, priority, timeout_at
), moving AS (
    INSERT INTO botpool_moved_bots (bot_id, priority, timeout_at, display_name, meeting, details)
    SELECT
        taken.bot_id, taken.priority, taken.timeout_at, b.display_name, b.meeting::jsonb,
        jsonb_strip_nulls(jsonb_build_object(
            'userId', b.user_id, 'recordingEnabled', b.recording_enabled, 'automaticLeave', b.automatic_leave,
            'callbackUrl', b.callback_url, 'imageUrl', b.image_url, 'startTime', b.start_time,
            'endTime', b.end_time))
    FROM taken
    JOIN meeboter_bots b ON b.id = taken.bot_id
    ON CONFLICT (bot_id) DO UPDATE SET priority = excluded.priority, timeout_at = excluded.timeout_at
    RETURNING bot_id, priority, timeout_at, display_name, meeting, details
)
SELECT
    m.bot_id, m.priority, (extract(epoch FROM m.timeout_at - now()) * 1000)::bigint AS remaining_ms,
    m.display_name, m.meeting, m.details
FROM moving m
