"""Sessions of the dashboard: a random id for a key, stored as a hash until the session ends."""

from botpool.domain.tenants import ApiKey
from botpool.domain.tokens import hash_session_id, new_session_id
from botpool.engine.audit import audit_row
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
        begun = insert_dashboard_session.statement(
            id_hash=hash_session_id(session_id), key_id=key_id, duration_s=SESSION_S
        )
        await self._database.commit([begun, *audit_row("session.begin", f"key {key_id}")])
        return session_id

    async def find(self, session_id: str) -> ApiKey | None:
        """Find the key of a session; None after the end of either. Not cached: sessions are few."""
        return await find_dashboard_session(self._database, id_hash=hash_session_id(session_id))

    async def end(self, session_id: str) -> None:
        """End a session; the actor is its own key."""
        key = await self.find(session_id)
        ended = delete_dashboard_session.statement(id_hash=hash_session_id(session_id))
        rows = [] if key is None else audit_row("session.end", f"key {key.id}")
        await self._database.commit([ended, *rows])
