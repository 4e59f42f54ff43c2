-- Add a row to the audit log.
INSERT INTO audit_log (
    actor, actor_key_id, tenant, action, target, before, after, address, correlation_id)
VALUES (
    %(actor)s, %(actor_key_id)s::bigint, %(tenant)s, %(action)s, %(target)s,
    %(before)s::jsonb, %(after)s::jsonb, %(address)s, %(correlation_id)s)
