-- Store the results of attempts of one webhook. The end of a delivery makes the bot's next event due. A
-- result of an attempt that another replica has repeated changes nothing. The transaction holds the lock
-- of the webhook.
WITH result AS MATERIALIZED (
    SELECT
        r.id, r.attempt, r.status, r.delay_ms, r.response_status, r.response_body, r.problem,
        r.duration_ms
    FROM unnest(
        %(ids)s::bigint[], %(attempts)s::integer[], %(statuses)s::text[], %(delays_ms)s::bigint[],
        %(response_statuses)s::integer[], %(response_bodies)s::text[], %(problems)s::text[],
        %(durations_ms)s::integer[]
    ) AS r (id, attempt, status, delay_ms, response_status, response_body, problem, duration_ms)
), attempted AS (
    UPDATE webhook_deliveries d
    SET status = r.status,
        next_attempt_at = CASE
            WHEN r.status = 'pending' THEN botpool_now() + r.delay_ms * interval '1 millisecond'
        END,
        response_status = r.response_status,
        response_body = r.response_body,
        problem = r.problem,
        duration_ms = r.duration_ms
    FROM result r
    WHERE d.id = r.id AND d.attempts = r.attempt AND d.status = 'pending'
    RETURNING d.id, d.bot_id, d.history_id, d.status
), next AS (
    SELECT (
        SELECT d.id
        FROM webhook_deliveries d
        WHERE d.webhook_id = %(webhook_id)s::bigint AND d.bot_id = a.bot_id AND d.status = 'pending'
          AND d.id <> a.id
        ORDER BY d.history_id
        LIMIT 1
    ) AS id
    FROM attempted a
    WHERE a.status <> 'pending' AND a.bot_id IS NOT NULL
), released AS (
    UPDATE webhook_deliveries d
    SET next_attempt_at = botpool_now()
    FROM next
    WHERE d.id = next.id AND d.next_attempt_at IS NULL
), tally AS MATERIALIZED (
    SELECT
        count(*) FILTER (WHERE a.status = 'delivered') AS delivered,
        count(*) FILTER (WHERE a.status <> 'delivered') AS failed
    FROM attempted a
)
UPDATE webhooks w
SET failures = outcome.failures,
    failing_since = outcome.failing_since,
    last_delivered_at = CASE WHEN outcome.delivered THEN botpool_now() ELSE w.last_delivered_at END,
    paused_until = CASE
        WHEN %(pause_s)s::float8 > 0 THEN botpool_now() + make_interval(secs => %(pause_s)s::float8)
        WHEN outcome.failures >= %(paused_after)s::integer
        THEN botpool_now() + make_interval(secs => %(failing_pause_s)s)
        WHEN outcome.delivered THEN NULL
        ELSE w.paused_until
    END,
    disabled_at = CASE WHEN outcome.disabled_reason IS NOT NULL THEN botpool_now() END,
    disabled_reason = outcome.disabled_reason
FROM (
    SELECT
        before.id, tally.delivered > 0 AS delivered,
        CASE WHEN tally.delivered > 0 THEN 0 ELSE before.failures + tally.failed END AS failures,
        CASE
            WHEN tally.delivered = 0 THEN coalesce(before.failing_since, botpool_now())
        END AS failing_since,
        CASE
            WHEN before.disabled_at IS NOT NULL THEN before.disabled_reason
            WHEN %(is_gone)s THEN %(gone_reason)s::text
            WHEN tally.delivered = 0
                 AND before.failing_since <= botpool_now() - make_interval(days => %(disabled_after_days)s)
            THEN %(failing_reason)s::text
        END AS disabled_reason
    FROM webhooks before
    CROSS JOIN tally
    WHERE before.id = %(webhook_id)s::bigint AND tally.delivered + tally.failed > 0
) AS outcome
WHERE w.id = outcome.id
RETURNING w.disabled_reason
