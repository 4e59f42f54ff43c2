-- Reschedule slots whose times lie implausibly far ahead, because the database's clock was set back. A
-- lease ends no later than a new one would: its holder's calls end before that, by its own clock. A step
-- that was only postponed is due now; a deadline counts as if it began now.
WITH future AS MATERIALIZED (
    SELECT
        s.id, s.status, b.leave_by, b.finishing_at, p.finish_timeout_s,
        (s.status = 'deploying' OR s.standby IN ('starting', 'pulling'))
            AND (s.start_issued_at IS NOT NULL OR s.phase IN ('waiting_for_image', 'waiting_for_start'))
            AS has_deadline
    FROM bot_pool_slots s
    JOIN pools p ON p.pool_name = s.pool_name
    LEFT JOIN bots b ON b.id = s.assigned_bot_id
    WHERE greatest(
              s.phase_at, s.last_assigned_at, s.last_released_at, s.last_used_at, s.start_allowed_at,
              s.start_issued_at, s.run_started_at, s.deployment_ended_at, s.stop_issued_at, s.delete_issued_at,
              s.error_at
          ) > botpool_now() + make_interval(secs => %(tolerance_s)s)
       OR s.lease_until > botpool_now() + make_interval(secs => %(lease_s)s::float8 + %(tolerance_s)s)
       OR (s.status <> 'busy'
           AND s.next_step_at > botpool_now() + make_interval(secs => CASE
               WHEN s.status = 'deploying' OR s.standby IN ('starting', 'pulling') THEN %(deadline_s)s::float8
               -- A container that was asked to stop has its grace.
               WHEN s.status = 'releasing' THEN p.stop_grace_s + %(delay_s)s
               ELSE %(delay_s)s END))
       OR (s.status = 'busy'
           AND b.finishing_at IS NOT NULL
           AND s.next_step_at
               > botpool_now() + make_interval(secs => p.finish_timeout_s + %(tolerance_s)s::float8))
       OR (s.status = 'busy'
           AND b.leave_by > botpool_now() + make_interval(secs => %(leave_grace_s)s::float8 + %(tolerance_s)s))
    ORDER BY s.id
    FOR UPDATE OF s SKIP LOCKED
)
UPDATE bot_pool_slots s
SET next_step_at = CASE
        WHEN s.status = 'busy' AND future.finishing_at IS NOT NULL
            THEN botpool_not_after(
                s.next_step_at, botpool_now() + make_interval(secs => future.finish_timeout_s))
        WHEN s.status = 'busy' AND future.leave_by IS NOT NULL
            THEN botpool_not_after(s.next_step_at, botpool_now() + make_interval(secs => %(leave_grace_s)s))
        WHEN s.status = 'busy'
            THEN s.next_step_at - greatest(s.phase_at - botpool_now(), interval '0')
        WHEN future.has_deadline
            THEN botpool_not_after(s.next_step_at, botpool_now() + make_interval(secs => %(deadline_s)s))
        ELSE botpool_not_after(s.next_step_at, botpool_now())
    END,
    lease_until = botpool_not_after(s.lease_until, botpool_now() + make_interval(secs => %(lease_s)s)),
    phase_at = botpool_not_after(s.phase_at, botpool_now()),
    last_assigned_at = botpool_not_after(s.last_assigned_at, botpool_now()),
    last_released_at = botpool_not_after(s.last_released_at, botpool_now()),
    last_used_at = botpool_not_after(s.last_used_at, botpool_now()),
    start_allowed_at = botpool_not_after(s.start_allowed_at, botpool_now()),
    start_issued_at = botpool_not_after(s.start_issued_at, botpool_now()),
    run_started_at = botpool_not_after(s.run_started_at, botpool_now()),
    error_at = botpool_not_after(s.error_at, botpool_now()),
    deployment_ended_at = botpool_not_after(s.deployment_ended_at, botpool_now()),
    stop_issued_at = botpool_not_after(s.stop_issued_at, botpool_now()),
    delete_issued_at = botpool_not_after(s.delete_issued_at, botpool_now()),
    version = s.version + 1
FROM future
WHERE s.id = future.id
RETURNING s.id
