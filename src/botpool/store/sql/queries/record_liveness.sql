-- Record that a replica is alive. After a gap without a live replica, record when the gap ended: the
-- silence of agents counts only from then, because no replica could accept their heartbeats.
INSERT INTO liveness AS l (seen_at, gap_ended_at)
VALUES (botpool_now(), botpool_now())
ON CONFLICT (only_row) DO UPDATE
SET seen_at = EXCLUDED.seen_at,
    gap_ended_at = CASE
        WHEN EXCLUDED.seen_at - l.seen_at > make_interval(secs => %(gap_s)s) THEN EXCLUDED.seen_at
        ELSE l.gap_ended_at
    END
RETURNING l.gap_ended_at
