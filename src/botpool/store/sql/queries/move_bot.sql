-- Change the join time of a bot that has not started, with its booking. The caller has taken the pool's
-- booking lock and the pool's lock in earlier statements. The bot's own booking does not count in the
-- overlap. A queued bot whose start is ahead again becomes SCHEDULED; a deploying one waits in its
-- container until the new time. No row: the bot has started or ended, or the time is past or too far.
WITH waiting AS MATERIALIZED (
    SELECT q.bot_id FROM bot_pool_queue q WHERE q.bot_id = %(bot_id)s FOR UPDATE
), former AS MATERIALIZED (
    SELECT
        b.id, b.status, b.pool_name, b.tenant_id, b.correlation_id, b.join_at, k.starts_at,
        k.expected_duration_ms, k.reserved, w.bot_id IS NOT NULL AS is_queued
    FROM bots b
    LEFT JOIN bookings k ON k.bot_id = b.id
    LEFT JOIN waiting w ON w.bot_id = b.id
    WHERE b.id = %(bot_id)s
      AND (b.status IN ('SCHEDULED', 'QUEUED') OR (b.status = 'DEPLOYING' AND b.join_at IS NOT NULL))
      AND %(join_at)s::timestamptz BETWEEN botpool_now() - interval '1 minute'
          AND botpool_now() + make_interval(days => %(max_days)s)
    FOR UPDATE OF b
), period AS MATERIALIZED (
    SELECT
        t.hold_s, t.start_s, t.median_start_s, t.reservable_slots,
        CASE WHEN f.status = 'DEPLOYING' THEN f.starts_at ELSE greatest(
            botpool_now(),
            %(join_at)s::timestamptz - make_interval(
                secs => t.start_s + botpool_pacing_time(f.pool_name, %(join_at)s))) END AS starts_at,
        greatest(%(join_at)s, botpool_now()) + make_interval(
            secs => coalesce(f.expected_duration_ms / 1000.0, t.duration_s) + t.release_s) AS ends_at
    FROM former f
    CROSS JOIN LATERAL botpool_booking_times(f.pool_name) AS t
), decided AS MATERIALIZED (
    SELECT
        -- A bot that already has a slot keeps it.
        (f.status = 'DEPLOYING' AND f.reserved)
        OR (
            botpool_max_overlap(f.pool_name, NULL, d.starts_at, d.ends_at, f.id) < d.reservable_slots
            AND coalesce((
                SELECT botpool_max_overlap(NULL, t.id, d.starts_at, d.ends_at, f.id) < q.slots
                FROM tenants t
                CROSS JOIN LATERAL (
                    SELECT least(coalesce(t.max_booked, t.max_live), t.max_live) AS slots) AS q
                WHERE t.id = f.tenant_id AND q.slots IS NOT NULL), true)) AS reserved,
        f.status = 'SCHEDULED' OR (f.status = 'QUEUED' AND d.starts_at > botpool_now()) AS is_scheduled
    FROM former f
    CROSS JOIN period d
), unqueued AS (
    DELETE FROM bot_pool_queue q
    USING former f, decided c
    WHERE q.bot_id = f.id AND f.is_queued AND c.is_scheduled
), requeued AS (
    UPDATE bot_pool_queue q
    SET reserved_join_at = CASE WHEN c.reserved THEN %(join_at)s::timestamptz END
    FROM former f, decided c
    WHERE q.bot_id = f.id AND f.is_queued AND NOT c.is_scheduled
), bot AS (
    UPDATE bots b
    SET join_at = %(join_at)s,
        status = CASE WHEN c.is_scheduled THEN 'SCHEDULED' ELSE b.status END,
        queued_at = CASE WHEN c.is_scheduled THEN NULL ELSE b.queued_at END
    FROM former f, decided c
    WHERE b.id = f.id
), booking AS (
    INSERT INTO bookings AS k (bot_id, pool_name, tenant_id, reserved, starts_at, ends_at, due_at)
    SELECT
        f.id, f.pool_name, f.tenant_id, c.reserved, d.starts_at, d.ends_at,
        CASE WHEN NOT c.is_scheduled THEN botpool_now() END
    FROM former f
    CROSS JOIN decided c
    CROSS JOIN period d
    ON CONFLICT (bot_id) DO UPDATE
    SET reserved = EXCLUDED.reserved, starts_at = EXCLUDED.starts_at, ends_at = EXCLUDED.ends_at,
        at_risk = NULL,
        due_at = CASE WHEN EXCLUDED.due_at IS NOT NULL THEN coalesce(k.due_at, EXCLUDED.due_at) END
), written AS (
    INSERT INTO history (kind, bot_id, from_state, to_state, reason, correlation_id, data)
    SELECT
        v.kind, f.id, v.from_state, v.to_state, %(reason)s, f.correlation_id,
        json_build_object('joinAt', %(join_at)s, 'formerJoinAt', f.join_at, 'reserved', c.reserved)
    FROM former f
    CROSS JOIN decided c
    CROSS JOIN LATERAL (
        VALUES
            (1, 'bot.moved', NULL, NULL),
            (2, 'bot.status', f.status, 'SCHEDULED')
    ) AS v (step, kind, from_state, to_state)
    WHERE v.step = 1 OR (c.is_scheduled AND f.status <> 'SCHEDULED')
    ORDER BY v.step
)
SELECT
    f.id AS bot_id, c.reserved, d.starts_at, d.ends_at, d.start_s, d.median_start_s, d.reservable_slots,
    c.is_scheduled AND d.starts_at < botpool_now() + make_interval(secs => d.hold_s) AS within_hold,
    c.is_scheduled AND d.starts_at <= botpool_now() AS is_due, f.status AS former_status,
    CASE WHEN c.is_scheduled THEN 'SCHEDULED' ELSE f.status END AS status,
    f.correlation_id, botpool_now() AS created_at
FROM former f
CROSS JOIN decided c
CROSS JOIN period d
