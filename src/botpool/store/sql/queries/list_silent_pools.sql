-- List the pools whose silence alarm is raised.
SELECT p.pool_name, p.silence_alarm_at FROM pools p WHERE p.silence_alarm_at IS NOT NULL
