-- Record that a replica stops in order: its absence is no gap. A gap that it had ends now.
UPDATE liveness l
SET stopped_at = botpool_now(),
    gap_ended_at = CASE
        WHEN botpool_now() - l.heartbeats_at > make_interval(secs => %(gap_s)s) THEN botpool_now()
        ELSE l.gap_ended_at
    END
WHERE l.replica = %(replica)s
