"""Applies migrations beside live replicas.

Each migration is one transaction that also records it: a process that is killed at any point leaves
the schema before or after the migration, and the next run continues. A migration waits only briefly
for a lock, because statements of live replicas queue behind the waiting migration; then it rolls
back, which releases all its locks, and tries again. An advisory lock allows one migration at a
time; PostgreSQL releases it with the session.

A migration outside a transaction (an index that is created concurrently) blocks no statement while
it waits. It is recorded after its last statement, so its statements must bear repetition.
"""

import re
import time
from collections.abc import Callable
from importlib.resources import files
from importlib.resources.abc import Traversable

import psycopg

from botpool.domain.errors import DatabaseUnavailable, ForeignTables, MigrationFailed
from botpool.store.deadlines import SOCKET_OPTIONS
from botpool.store.migrations import Migration, known_migrations, known_names

LOCK_TIMEOUT_S = 2.0
"""Longer than PostgreSQL's deadlock_timeout, after which an autovacuum makes way."""
GIVE_UP_S = 300.0
_PAUSE_S = 0.3
_SQL = files("botpool.store") / "sql" / "migrator"
_BLOCKED = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)


def _ignore_progress(_done: int, _total: int) -> None: ...


def migrate(
    url: str,
    *,
    on_progress: Callable[[int, int], None] = _ignore_progress,
    folder: Traversable | None = None,
    give_up_s: float = GIVE_UP_S,
) -> list[str]:
    """Apply the pending migrations and return their names. Concurrent calls wait for each other."""
    try:
        with psycopg.connect(url, autocommit=True, **SOCKET_OPTIONS) as session:
            applied = _list_applied(session)
            if set(known_names(folder)) <= applied:
                return []
            if not applied:
                _refuse_foreign_tables(session, folder)
            return _Migrator(session, give_up_s).apply(known_migrations(folder), on_progress)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable.after(error) from error


def _list_applied(session: psycopg.Connection) -> set[str]:
    try:
        return {name for (name,) in session.execute(_read_sql("list_applied"))}
    except psycopg.errors.UndefinedTable:
        return set()


def _refuse_foreign_tables(session: psycopg.Connection, folder: Traversable | None) -> None:
    """Raise `ForeignTables` before the first migration if its tables exist already."""
    text = "\n".join(migration.text for migration in known_migrations(folder))
    own = set(re.findall(r"^CREATE TABLE (\w+)", text, re.MULTILINE))
    existing = [name for (name,) in session.execute(_read_sql("list_foreign_tables"))]
    if foreign := [name for name in existing if name in own]:
        raise ForeignTables(database=session.info.dbname, tables=foreign)


class _Migrator:
    """Applies migrations through one session, which is in autocommit mode."""

    def __init__(self, session: psycopg.Connection, give_up_s: float) -> None:
        self._session = session
        self._give_up_at = time.monotonic() + give_up_s
        self._give_up_s = give_up_s

    def apply(
        self, migrations: list[Migration], on_progress: Callable[[int, int], None]
    ) -> list[str]:
        applied = _list_applied(self._session)
        pending = [migration for migration in migrations if migration.name not in applied]
        done = []
        for number, migration in enumerate(pending):
            on_progress(number, len(pending))
            if self._apply_when_possible(migration):
                done.append(migration.name)
        return done

    def _apply_when_possible(self, migration: Migration) -> bool:
        """Apply a migration; returns False if another process has applied it meanwhile."""
        apply = self._apply if migration.in_transaction else self._apply_outside_transaction
        while True:
            try:
                return apply(migration)
            except _BLOCKED as error:
                if time.monotonic() > self._give_up_at:
                    raise MigrationFailed(migration.name, self._describe_blockers(error)) from error
                time.sleep(_PAUSE_S)
            except psycopg.OperationalError:
                raise
            except psycopg.Error as error:
                problem = str(error).strip().splitlines()[0]
                raise MigrationFailed(migration.name, problem) from error

    def _apply(self, migration: Migration) -> bool:
        with self._session.transaction():
            self._begin(LOCK_TIMEOUT_S)
            self._session.execute(_read_sql("lock"))
            self._session.execute(_read_sql("create_record"))
            if migration.name in _list_applied(self._session):
                return False
            self._session.execute(migration.text.encode())
            self._record(migration)
            return True

    def _apply_outside_transaction(self, migration: Migration) -> bool:
        self._begin(max(1.0, self._give_up_at - time.monotonic()))
        self._session.execute(_read_sql("lock_session"))
        try:
            if migration.name in _list_applied(self._session):
                return False
            for statement in migration.statements:
                self._session.execute(statement.encode())
            self._record(migration)
            return True
        finally:
            if not self._session.broken:
                self._session.execute(_read_sql("unlock_session"))

    def _begin(self, lock_timeout_s: float) -> None:
        timeout = f"{lock_timeout_s * 1000:.0f}ms"
        self._session.execute(_read_sql("begin"), {"lock_timeout": timeout})

    def _record(self, migration: Migration) -> None:
        fields = {"name": migration.name, "compatible_with": migration.compatible_with}
        self._session.execute(_read_sql("record"), fields)

    def _describe_blockers(self, error: psycopg.Error) -> str:
        sessions = [text for (text,) in self._session.execute(_read_sql("list_blocking_sessions"))]
        return (
            f"it got no lock within {self._give_up_s:g} s ({str(error).splitlines()[0]}). "
            f"Open transactions: {'; '.join(sessions) or 'none'}. End them, or run "
            "'botpool migrate' again"
        )


def _read_sql(name: str) -> bytes:
    return (_SQL / f"{name}.sql").read_bytes()
