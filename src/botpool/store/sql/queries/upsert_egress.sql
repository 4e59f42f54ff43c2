-- Write the settings of an egress, if they changed. A new egress has all its permits.
INSERT INTO egresses AS e (
    egress, per_minute, burst, pause_after_blocks, pause_s, recover_s, permits, counted_at)
VALUES (
    %(egress)s, %(per_minute)s, %(burst)s::integer, %(pause_after_blocks)s, %(pause_s)s, %(recover_s)s,
    %(burst)s::integer, botpool_now())
ON CONFLICT (egress) DO UPDATE
SET per_minute = EXCLUDED.per_minute,
    burst = EXCLUDED.burst,
    pause_after_blocks = EXCLUDED.pause_after_blocks,
    pause_s = EXCLUDED.pause_s,
    recover_s = EXCLUDED.recover_s,
    pace = botpool_pace(e),
    permits = botpool_permits(e),
    counted_at = botpool_now()
WHERE (e.per_minute, e.burst, e.pause_after_blocks, e.pause_s, e.recover_s)
    IS DISTINCT FROM (
        EXCLUDED.per_minute, EXCLUDED.burst, EXCLUDED.pause_after_blocks, EXCLUDED.pause_s,
        EXCLUDED.recover_s)
