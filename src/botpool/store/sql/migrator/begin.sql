-- Limit each wait for a lock, because statements of live replicas queue behind it. A change of a large
-- table may take longer than a statement of the role usually may.
SELECT set_config('lock_timeout', %(lock_timeout)s, false), set_config('statement_timeout', '0', false)
