-- List the queued bots that have not ended, in the order of the queue.
SELECT
    q.bot_id, q.priority,
    (extract(epoch FROM q.timeout_at - now()) * 1000)::bigint AS remaining_ms,
    b.display_name, b.meeting::jsonb AS meeting,
    jsonb_strip_nulls(jsonb_build_object(
        'userId', b.user_id, 'recordingEnabled', b.recording_enabled, 'automaticLeave', b.automatic_leave,
        'callbackUrl', b.callback_url, 'imageUrl', b.image_url, 'startTime', b.start_time,
        'endTime', b.end_time)) AS details
FROM meeboter_queue q
JOIN meeboter_bots b ON b.id = q.bot_id
WHERE upper(b.status) NOT IN ('DONE', 'FATAL', 'FAILED', 'CANCELLED')
ORDER BY q.priority, q.queued_at, q.bot_id
