"""Schema migrations: plain SQL files, applied by yoyo under a lock.

A replica serves only on a schema that it knows. A migration expands the schema first and a later
release contracts it, so that replicas of versions N and N+1 can run side by side during an upgrade.
"""

from collections.abc import Callable
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from urllib.parse import urlsplit

import psycopg

from botpool.domain.errors import DatabaseUnavailable, SchemaMismatch
from botpool.store.maintenance import list_migrations
from botpool.store.statements import sent_text

MIGRATIONS: Traversable = files("botpool.store") / "sql" / "migrations"


def known_migrations(folder: Traversable = MIGRATIONS) -> list[str]:
    """Return the names of the migrations in the folder, in the order in which they apply."""
    names = (entry.name for entry in folder.iterdir())
    return sorted(
        name.removesuffix(".sql")
        for name in names
        if name.endswith(".sql") and not name.endswith(".rollback.sql")
    )


def check_schema(applied: list[str] | None) -> None:
    """Raise `SchemaMismatch` unless this version can serve the schema; None means no schema."""
    known = known_migrations()
    missing = [name for name in known if name not in (applied or [])]
    unknown = [name for name in (applied or []) if name not in known]
    if unknown:
        raise SchemaMismatch(
            f"The database has a newer schema ({unknown[-1]}) than this Botpool knows. "
            "Install the version that applied this migration, or a later one."
        )
    if missing:
        raise SchemaMismatch(
            f"The database lacks the migration {missing[0]}. Run 'botpool migrate' first."
        )


def _ignore_progress(_done: int, _total: int) -> None: ...


def migrate(
    url: str,
    *,
    on_progress: Callable[[int, int], None] = _ignore_progress,
    folder: Traversable = MIGRATIONS,
) -> list[str]:
    """Apply the pending migrations and return their names. Concurrent calls wait for each other."""
    try:
        # Connect with psycopg first: yoyo hides PostgreSQL's reason for a refused connection.
        if _is_up_to_date(url, folder):
            return []
        # Imported here, because only a migration needs yoyo and its import slows down a start.
        from yoyo import get_backend, read_migrations

        backend = get_backend(_yoyo_url(url))
    except psycopg.Error as error:
        raise DatabaseUnavailable.after(error) from error
    try:
        with as_file(folder) as directory, backend.lock():
            pending = backend.to_apply(read_migrations(str(directory)))
            for done, migration in enumerate(pending):
                on_progress(done, len(pending))
                backend.apply_one(migration)
            return [migration.id for migration in pending]
    finally:
        backend.connection.close()


def _is_up_to_date(url: str, folder: Traversable) -> bool:
    """Check whether every migration of the folder has been applied."""
    with psycopg.connect(url, connect_timeout=5) as connection:
        try:
            rows = connection.execute(sent_text(list_migrations.name)).fetchall()
        except psycopg.errors.UndefinedTable:
            return False
    return set(known_migrations(folder)) <= {migration for (migration,) in rows}


def _yoyo_url(url: str) -> str:
    """Return the URL with the scheme that makes yoyo use psycopg 3."""
    return "postgresql+psycopg:" + url.removeprefix(urlsplit(url).scheme + ":")
