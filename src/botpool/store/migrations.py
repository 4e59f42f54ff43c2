"""The schema's versions: plain SQL, run by yoyo, which keeps what was applied and locks.

A replica serves only on a schema that it knows. Migrations expand first and contract in a later
release, so that versions N and N+1 run side by side while replicas are exchanged.
"""

from collections.abc import Callable
from importlib.resources import as_file, files
from urllib.parse import urlsplit

import psycopg

from botpool.domain.errors import DatabaseUnavailable, SchemaMismatch
from botpool.store.statements import sent_text

_MIGRATIONS = files("botpool.store") / "sql" / "migrations"


def known_migrations() -> list[str]:
    names = (entry.name for entry in _MIGRATIONS.iterdir())
    return sorted(
        name.removesuffix(".sql")
        for name in names
        if name.endswith(".sql") and not name.endswith(".rollback.sql")
    )


def check_schema(applied: list[str] | None) -> None:
    """Refuse a schema that this version cannot serve. `applied` is None when there is none."""
    known = known_migrations()
    missing = [name for name in known if name not in (applied or [])]
    unknown = [name for name in (applied or []) if name not in known]
    if unknown:
        raise SchemaMismatch(
            f"The database has a newer schema ({unknown[-1]}) than this Botpool knows. "
            "Install the version that made it."
        )
    if missing:
        raise SchemaMismatch(
            f"The database lacks the migration {missing[0]}. Run 'botpool migrate' first."
        )


def _untold(_done: int, _of: int) -> None: ...


def migrate(url: str, *, on_progress: Callable[[int, int], None] = _untold) -> list[str]:
    """Bring the schema up to date and name what was applied. Safe to run from many at once."""
    try:
        # yoyo reports a refused connection in its own words; ask first, in PostgreSQL's.
        if _is_up_to_date(url):
            return []
        # Imported here: only migrating needs it, and starting should be quick.
        from yoyo import get_backend, read_migrations

        backend = get_backend(_for_yoyo(url))
    except psycopg.Error as error:
        raise DatabaseUnavailable(str(error).strip().splitlines()[0]) from error
    try:
        with as_file(_MIGRATIONS) as folder, backend.lock():
            pending = backend.to_apply(read_migrations(str(folder)))
            for done, migration in enumerate(pending):
                on_progress(done, len(pending))
                backend.apply_one(migration)
            return [migration.id for migration in pending]
    finally:
        backend.connection.close()


def _is_up_to_date(url: str) -> bool:
    """Has everything been applied? As nearly every start finds it."""
    with psycopg.connect(url, connect_timeout=5) as connection:
        try:
            row = connection.execute(sent_text("check_ready")).fetchone()
        except psycopg.errors.UndefinedTable:
            return False
    return row is not None and set(known_migrations()) <= set(row[0])


def _for_yoyo(url: str) -> str:
    """The same address under the name by which yoyo chooses psycopg 3."""
    return "postgresql+psycopg:" + url.removeprefix(urlsplit(url).scheme + ":")
