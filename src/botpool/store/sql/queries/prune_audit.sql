-- Delete a batch of the oldest rows of the audit log. The setting tells the trigger that this is the retention.
WITH allowed AS MATERIALIZED (
    SELECT set_config('botpool.prunes_audit_log', 'on', true) AS setting
)
DELETE FROM audit_log a
USING allowed
WHERE allowed.setting = 'on'
  AND a.id IN (
    SELECT old.id
    FROM audit_log old
    WHERE old.at < botpool_now() - make_interval(days => %(days)s::integer)
    ORDER BY old.id
    LIMIT %(limit)s::integer)
RETURNING a.id
