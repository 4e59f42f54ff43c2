-- Create a scheduled bot with its booking, reserved if the highest overlap in its period leaves room.
-- The caller has taken the pool's booking lock in an earlier statement. No row: the idempotency key is
-- taken. A row without a bot says why nothing was created: the pool is drained, the time is past or too
-- far ahead, too many bots are scheduled, or a required reservation is not possible.
WITH period AS MATERIALIZED (
    SELECT
        p.drained_at, t.hold_s, t.start_s, t.median_start_s, t.reservable_slots,
        greatest(
            botpool_now(),
            %(join_at)s::timestamptz - make_interval(
                secs => t.start_s + botpool_pacing_time(p.pool_name, %(join_at)s))) AS starts_at,
        greatest(%(join_at)s, botpool_now()) + make_interval(
            secs => coalesce(%(expected_duration_ms)s::bigint / 1000.0, t.duration_s) + t.release_s) AS ends_at
    FROM pools p
    CROSS JOIN LATERAL botpool_booking_times(p.pool_name) AS t
    WHERE p.pool_name = %(pool_name)s
), capacity AS MATERIALIZED (
    SELECT
        botpool_max_overlap(%(pool_name)s, NULL, d.starts_at, d.ends_at, NULL) < d.reservable_slots
            AS pool_has_room,
        coalesce((
            SELECT botpool_max_overlap(NULL, t.id, d.starts_at, d.ends_at, NULL) < q.slots
            FROM tenants t
            CROSS JOIN LATERAL (
                SELECT least(coalesce(t.max_booked, t.max_live), t.max_live) AS slots) AS q
            WHERE t.id = %(tenant_id)s AND q.slots IS NOT NULL), true) AS tenant_has_room
    FROM period d
), verdict AS MATERIALIZED (
    SELECT
        c.pool_has_room AND c.tenant_has_room AS reserved,
        CASE
            WHEN d.drained_at IS NOT NULL THEN 'drained'
            WHEN %(join_at)s < botpool_now() - interval '1 minute' THEN 'past'
            WHEN %(join_at)s > botpool_now() + make_interval(days => %(max_days)s) THEN 'far'
            WHEN (
                SELECT count(*) FROM (
                    SELECT FROM bookings k
                    WHERE k.pool_name = %(pool_name)s AND k.ended_at IS NULL
                    LIMIT %(max_scheduled)s::integer) AS counted) >= %(max_scheduled)s THEN 'full'
            WHEN %(require_reservation)s AND NOT c.tenant_has_room THEN 'tenant'
            WHEN %(require_reservation)s AND NOT c.pool_has_room THEN 'capacity'
        END AS refusal
    FROM period d
    CROSS JOIN capacity c
), ids AS MATERIALIZED (
    SELECT nextval('bots_id_seq') AS bot_id FROM verdict v WHERE v.refusal IS NULL
), keyed AS (
    INSERT INTO idempotency_keys AS k (api_key_id, key, body_hash, bot_id, created_at)
    SELECT %(api_key_id)s, %(idempotency_key)s::text, %(body_hash)s, ids.bot_id, botpool_now()
    FROM ids
    WHERE %(idempotency_key)s::text IS NOT NULL
    ON CONFLICT (api_key_id, key) DO UPDATE
    SET body_hash = EXCLUDED.body_hash, bot_id = EXCLUDED.bot_id, created_at = EXCLUDED.created_at
    WHERE k.created_at < botpool_now() - make_interval(days => %(idempotency_days)s)
    RETURNING k.bot_id
), admitted AS MATERIALIZED (
    SELECT ids.bot_id FROM ids
    WHERE %(idempotency_key)s::text IS NULL OR ids.bot_id IN (SELECT c.bot_id FROM keyed c)
), bot AS (
    INSERT INTO bots (
        id, tenant_id, created_by, pool_name, status, meeting_url, bot_display_name, bot_data,
        priority, queue_timeout_ms, correlation_id, traceparent, created_at, join_at)
    SELECT
        a.bot_id, %(tenant_id)s, %(api_key_id)s, %(pool_name)s, 'SCHEDULED', %(meeting_url)s,
        %(bot_display_name)s, %(bot_data)s::json, %(priority)s, %(queue_timeout_ms)s, %(correlation_id)s,
        %(traceparent)s, botpool_now(), %(join_at)s
    FROM admitted a
    RETURNING id
), booking AS (
    INSERT INTO bookings (
        bot_id, pool_name, tenant_id, reserved, starts_at, ends_at, expected_duration_ms)
    SELECT
        bot.id, %(pool_name)s, %(tenant_id)s, v.reserved, d.starts_at, d.ends_at,
        %(expected_duration_ms)s
    FROM bot
    CROSS JOIN period d
    CROSS JOIN verdict v
), written AS (
    INSERT INTO history (kind, bot_id, to_state, reason, correlation_id, data)
    SELECT
        'bot.status', a.bot_id, 'SCHEDULED', %(reason)s, %(correlation_id)s,
        json_build_object('joinAt', %(join_at)s, 'reserved', v.reserved)
    FROM admitted a
    CROSS JOIN verdict v
)
SELECT
    a.bot_id, v.refusal, v.reserved AND v.refusal IS NULL AS reserved, d.starts_at, d.ends_at,
    d.starts_at < botpool_now() + make_interval(secs => d.hold_s) AS within_hold,
    d.starts_at <= botpool_now() AS is_due, d.start_s, d.median_start_s, d.reservable_slots,
    botpool_now() AS created_at
FROM verdict v
CROSS JOIN period d
LEFT JOIN admitted a ON true
WHERE v.refusal IS NOT NULL OR a.bot_id IS NOT NULL
