-- Store a session of the dashboard, by the hash of its id, and delete the sessions that have ended.
WITH ended AS (
    DELETE FROM dashboard_sessions
    WHERE ends_at <= botpool_now()
)
INSERT INTO dashboard_sessions (id_hash, api_key_id, ends_at)
VALUES (%(id_hash)s, %(key_id)s, botpool_now() + make_interval(secs => %(duration_s)s))
