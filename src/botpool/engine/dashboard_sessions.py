"""Sessions of the dashboard: a random id for a key, stored as a hash until the session ends."""

from botpool.domain.records import ApiKey
from botpool.domain.tokens import hash_session_id, new_session_id
from botpool.store.dashboard_sessions import (
    delete_dashboard_session,
    find_dashboard_session,
    insert_dashboard_session,
)
from botpool.store.database import Database

SESSION_S = 7 * 24 * 3600
"""The longest session. Nothing extends it."""


class DashboardSessions:
    """Begins, finds and ends sessions. A session ends with its key, too."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, key_id: int) -> str:
        """Begin a session with the rights of a key and return its id, which is not stored."""
        session_id = new_session_id()
        await insert_dashboard_session(
            self._database,
            id_hash=hash_session_id(session_id),
            key_id=key_id,
            duration_s=SESSION_S,
        )
        return session_id

    async def find(self, session_id: str) -> ApiKey | None:
        """Find the key of a session; None after the end of either. Not cached: sessions are few."""
        return await find_dashboard_session(self._database, id_hash=hash_session_id(session_id))

    async def end(self, session_id: str) -> None:
        await delete_dashboard_session(self._database, id_hash=hash_session_id(session_id))
