-- Record that a replica is alive, accepts connections and can write heartbeats, and return when the last gap
-- in heartbeats ended. During a gap no agent counts as silent: this replica could not take or write heartbeats,
-- another replica cannot or disappeared without a word, or no replica was there. A replica that
-- disappeared counts for `lost_s`: its agents find another replica, or it comes back. A statement that
-- failed since the last record is a gap too: it may have been the call of an agent.
WITH clock AS MATERIALIZED (
    SELECT botpool_now() AS now, make_interval(secs => %(gap_s)s) AS longest
), others AS MATERIALIZED (
    SELECT l.heartbeats_at, l.alive_at, l.stopped_at, l.gap_ended_at
    FROM liveness l
    WHERE l.replica <> %(replica)s
), own AS (
    INSERT INTO liveness AS l
        (replica, public_url, alive_at, heartbeats_at, file_limit, files_needed, standbys, gap_ended_at)
    SELECT
        %(replica)s, %(public_url)s, clock.now, clock.now, %(file_limit)s::integer, %(files_needed)s::integer,
        true,
        CASE WHEN EXISTS (SELECT FROM others o WHERE clock.now - o.heartbeats_at <= clock.longest)
             THEN NULL ELSE clock.now END
    FROM clock
    ON CONFLICT (replica) DO UPDATE
    SET alive_at = EXCLUDED.alive_at,
        stopped_at = NULL,
        heartbeats_at = CASE
            WHEN %(heartbeats_work)s::boolean AND %(listener_answers)s::boolean
            THEN EXCLUDED.alive_at ELSE l.heartbeats_at
        END,
        unanswered_at = CASE
            WHEN %(listener_answers)s::boolean THEN l.unanswered_at ELSE EXCLUDED.alive_at
        END,
        file_limit = EXCLUDED.file_limit,
        files_needed = EXCLUDED.files_needed,
        gap_ended_at = CASE
            WHEN EXCLUDED.alive_at - l.heartbeats_at > make_interval(secs => %(gap_s)s)
              OR %(database_failed)s::boolean
            THEN EXCLUDED.alive_at ELSE l.gap_ended_at
        END
    RETURNING l.gap_ended_at
), forgotten AS (
    DELETE FROM liveness l USING clock
    WHERE l.alive_at < clock.now - interval '1 day' AND l.replica <> %(replica)s
)
SELECT coalesce(greatest(
    (SELECT own.gap_ended_at FROM own),
    (SELECT max(o.gap_ended_at) FROM others o),
    (
        SELECT max(CASE
            WHEN clock.now - o.alive_at > clock.longest
            THEN least(clock.now, o.alive_at + make_interval(secs => %(lost_s)s))
            ELSE clock.now
        END)
        FROM others o, clock
        WHERE o.stopped_at IS NULL AND clock.now - o.heartbeats_at > clock.longest
    )
), timestamptz 'epoch') AS gap_ended_at
