-- End a session of the dashboard.
DELETE FROM dashboard_sessions
WHERE id_hash = %(id_hash)s
