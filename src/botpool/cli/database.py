"""`botpool migrate`, and access to the database of the settings."""

import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from botpool.cli.options import ConfigOption, DataDirOption

if TYPE_CHECKING:
    from botpool.settings import Settings
    from botpool.store.data_dir import DataDir
    from botpool.store.database import Database
    from botpool.store.installation import Installation

T = TypeVar("T")


def migrate(config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Bring the database's schema up to date. Running it again, or twice at once, is safe.

    \b
    botpool migrate --config /etc/botpool.toml
    """
    from botpool.settings import load_settings

    settings = load_settings(config, {"data_dir": data_dir})

    from botpool.cli.output import console
    from botpool.cli.progress import bar
    from botpool.store.migrator import migrate as apply

    err = console(sys.stderr)
    with bar(err, "Preparing the database") as update, database_url(settings) as url:
        applied = apply(url, on_progress=update)
    for name in applied:
        typer.echo(f"applied {name}")
    if not applied:
        typer.echo("The schema is up to date.")


def installation_of(
    settings: "Settings", data_dir: "DataDir", embedded_url: str | None = None
) -> "Installation":
    """The installation of the settings, on the database by URL or on the running embedded one.

    In embedded mode, the data directory supplies the identity that the settings lack.
    """
    from botpool.domain.errors import SettingError
    from botpool.domain.installation_secret import (
        EXAMPLE_NEWER_SECRET,
        EXAMPLE_SECRET,
        HOW_TO_CREATE,
    )
    from botpool.store.installation import Installation

    own = settings.installation
    own_id, secrets = own.id, own.all_secrets
    if embedded_url is not None:
        stored = data_dir.installation()
        own_id, secrets = own_id or stored.id, secrets or stored.secrets
    assert own_id and secrets, "the settings demand both for a database by URL"
    if not {EXAMPLE_SECRET, EXAMPLE_NEWER_SECRET}.isdisjoint(secrets):
        problem = f"is an example of the documentation, which everybody knows: {HOW_TO_CREATE}"
        raise SettingError("installation.secret", problem)
    return Installation(
        database_url=embedded_url or settings.database.url.get_secret_value(),
        installation_id=own_id,
        secrets=secrets,
        data_dir=data_dir,
    )


@contextmanager
def database_url(settings: "Settings") -> Iterator[str]:
    """The URL of the database; an embedded database that does not run is started for the block."""
    from botpool.store.data_dir import DataDir
    from botpool.store.embedded import EmbeddedPostgres

    if not settings.database.embedded:
        yield settings.database.url.get_secret_value()
        return
    data_dir = DataDir.open(settings.data_dir)
    server = EmbeddedPostgres(data_dir)
    if (url := server.attach()) is not None:
        yield url
        return
    with data_dir.locked():
        try:
            yield server.start()
        finally:
            server.stop()


def with_database(
    config: Path | None, data_dir: Path | None, work: "Callable[[Database], Awaitable[T]]"
) -> T:
    """Call `work` with the database of the settings."""
    import asyncio

    from botpool.settings import load_settings

    settings = load_settings(config, {"data_dir": data_dir})
    with database_url(settings) as url:
        return asyncio.run(_with_database_at(url, work))


async def _with_database_at(url: str, work: "Callable[[Database], Awaitable[T]]") -> T:
    import psycopg

    from botpool.domain.audit import CLI, current_actor
    from botpool.domain.errors import DatabaseUnavailable
    from botpool.store.database import Database
    from botpool.store.migrations import check_schema

    database = Database(url, max_connections=2)
    try:
        # Connect once before the pool does: the pool retries for long and hides the cause.
        await (await database.listener()).close()
        await database.open()
        check_schema(await database.applied_migrations())
        current_actor.set(CLI)
        return await work(database)
    except psycopg.Error as error:
        raise DatabaseUnavailable(str(error)) from error
    finally:
        await database.close()
