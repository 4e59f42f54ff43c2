"""Sessions of the dashboard with ends that a test wants: the server gives out long ones only."""

import psycopg

from botpool.domain.tokens import hash_session_id, new_session_id

COOKIE = "botpool_session"


def insert_session(database_url: str, key_id: int, *, ends_in_s: float) -> str:
    """Store a session of a key and return the value of its cookie."""
    session_id = new_session_id()
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO dashboard_sessions (id_hash, api_key_id, ends_at)"
            " VALUES (%s, %s, botpool_now() + make_interval(secs => %s))",
            [hash_session_id(session_id), key_id, ends_in_s],
        )
    return session_id
