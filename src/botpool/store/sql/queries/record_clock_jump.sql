-- Record a jump of the database's clock, for the doctor.
INSERT INTO clock_jumps (noticed_at, seconds)
VALUES (botpool_now(), %(seconds)s)
ON CONFLICT (only_row) DO UPDATE SET noticed_at = EXCLUDED.noticed_at, seconds = EXCLUDED.seconds
