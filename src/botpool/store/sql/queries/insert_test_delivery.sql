-- Record a test, which was attempted once.
INSERT INTO webhook_deliveries (
    webhook_id, event_id, type, payload, status, attempts, last_attempt_at, response_status,
    response_body, problem, duration_ms)
VALUES (
    %(webhook_id)s, %(event_id)s, %(event_type)s, %(payload)s, %(status)s, 1, botpool_now(),
    %(response_status)s::integer, %(response_body)s, %(problem)s, %(duration_ms)s)
RETURNING id
