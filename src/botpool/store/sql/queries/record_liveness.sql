-- Record that a replica is alive. After a gap without a live replica, record when the gap ended: the
-- silence of agents counts only from then, because no replica could accept their heartbeats.
INSERT INTO liveness AS l (alive_at, gap_ended_at)
VALUES (botpool_now(), botpool_now())
ON CONFLICT (only_row) DO UPDATE
SET alive_at = EXCLUDED.alive_at,
    gap_ended_at = CASE
        WHEN EXCLUDED.alive_at - l.alive_at > make_interval(secs => %(gap_s)s) THEN EXCLUDED.alive_at
        ELSE l.gap_ended_at
    END
RETURNING l.gap_ended_at
