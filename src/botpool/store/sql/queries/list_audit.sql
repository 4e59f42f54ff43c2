-- List rows of the audit log, newest first.
SELECT
    a.id, a.at, a.actor, a.actor_key_id, a.tenant, a.action, a.target, a.before, a.after, a.address,
    a.correlation_id
FROM audit_log a
WHERE a.id < %(before_id)s::bigint
  AND (%(actor)s::text IS NULL OR a.actor = %(actor)s)
  AND (%(action)s::text IS NULL OR a.action = %(action)s)
  AND (%(target)s::text IS NULL OR a.target = %(target)s)
  AND (%(tenant)s::text IS NULL OR a.tenant = %(tenant)s)
ORDER BY a.id DESC
LIMIT %(limit)s::integer
