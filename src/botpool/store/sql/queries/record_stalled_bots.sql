-- Write a row of history for each bot that has stalled since it last recorded media.
WITH stalled AS MATERIALIZED (
    SELECT
        b.id, b.correlation_id, b.slot_name, h.last_media_at, p.stalled_after_s, h.assignment_id
    FROM pools p
    JOIN bots b ON b.pool_name = p.pool_name AND b.status = 'IN_CALL'
    JOIN bot_heartbeats h ON h.bot_id = b.id
    WHERE p.stalled_after_s > 0
      AND botpool_bot_is_stalled(b.status, h.last_at, h.last_media_at, b.in_call_at, p.stalled_after_s)
      AND coalesce(b.stalled_at < h.last_media_at, b.stalled_at IS NULL)
    ORDER BY b.id
    LIMIT %(limit)s
    FOR NO KEY UPDATE OF b SKIP LOCKED
), marked AS (
    UPDATE bots b
    SET stalled_at = botpool_now()
    FROM stalled
    WHERE b.id = stalled.id
)
INSERT INTO history (kind, bot_id, assignment_id, slot_name, reason, correlation_id, data)
SELECT
    'bot.stalled', stalled.id, stalled.assignment_id, stalled.slot_name, %(reason)s,
    stalled.correlation_id,
    json_build_object(
        'lastMediaAt',
        to_char(stalled.last_media_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'stalledAfterMs', round(stalled.stalled_after_s * 1000)::bigint)
FROM stalled
RETURNING bot_id
