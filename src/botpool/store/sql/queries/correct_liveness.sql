-- Let replicas that were alive in the future, before the clock was set back, have been alive until now.
UPDATE liveness
SET alive_at = botpool_not_after(alive_at, botpool_now()),
    heartbeats_at = botpool_not_after(heartbeats_at, botpool_now()),
    gap_ended_at = botpool_not_after(gap_ended_at, botpool_now()),
    stopped_at = botpool_not_after(stopped_at, botpool_now()),
    unanswered_at = botpool_not_after(unanswered_at, botpool_now())
WHERE greatest(alive_at, heartbeats_at, gap_ended_at, stopped_at)
      > botpool_now() + make_interval(secs => %(tolerance_s)s)
RETURNING replica
