"""From settings to a served replica, and back down in order."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

from rich.console import Console

from botpool.api.listener import bound_socket
from botpool.cli.importing import importing
from botpool.cli.progress import Bar, bar
from botpool.settings import Settings
from botpool.store.data_dir import DataDir
from botpool.store.embedded import EmbeddedPostgres
from botpool.store.installation import Installation
from botpool.store.migrations import migrate

_console = Console()


async def run(settings: Settings, *, friendly: bool) -> None:
    """Serve until a signal. `friendly` is `botpool up`: it greets, and it takes its bots along."""
    _cancel_when_interrupted()
    await _serve(settings, friendly=friendly)
    if friendly:
        _console.print(f"Stopped. What happened is kept in {settings.data_dir}.", markup=False)


async def _serve(settings: Settings, *, friendly: bool) -> None:
    with bound_socket(settings.server.host, settings.server.port) as listener:
        async with _installed(settings, friendly=friendly) as installed:
            with importing():
                from botpool.cli.replica import serve

            await serve(settings, installed, listener, greeted=_console if friendly else None)


def _cancel_when_interrupted() -> None:
    """Until the HTTP server takes the signals over, one of them undoes the start in order."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


@contextlib.asynccontextmanager
async def _installed(settings: Settings, *, friendly: bool) -> AsyncIterator[Installation]:
    """The database and the identity: of a server by URL, or embedded in the data directory."""
    data_dir = DataDir.open(settings.data_dir)
    if not settings.database.embedded:
        assert settings.installation.id is not None
        assert settings.installation.secret is not None
        yield Installation(
            database_url=settings.database.url.get_secret_value(),
            installation_id=settings.installation.id,
            secret=settings.installation.secret.get_secret_value(),
            data_dir=data_dir,
        )
        return
    with data_dir.locked(), contextlib.ExitStack() as stack:
        identity = data_dir.installation()
        embedded = EmbeddedPostgres(data_dir)
        # Registered first: an interrupted start may have left a server running.
        stack.enter_context(_stopped_at_the_end(embedded, shown=friendly))
        with (
            bar(_console, "Starting PostgreSQL", shown=friendly) as shown,
            ThreadPoolExecutor(1) as aside,
        ):
            starting = aside.submit(_start, embedded, shown)
            with importing():
                # Meanwhile: this takes longer than everything else in a start.
                import botpool.cli.replica  # noqa: F401
            url = starting.result()
        secret = settings.installation.secret
        yield Installation(
            database_url=url,
            installation_id=settings.installation.id or identity.id,
            secret=secret.get_secret_value() if secret else identity.secret,
            data_dir=data_dir,
        )


def _start(embedded: EmbeddedPostgres, shown: Bar) -> str:
    url = embedded.start()
    migrate(url, on_progress=lambda done, of: shown.tell(done, of, "Preparing the database"))
    return url


@contextlib.contextmanager
def _stopped_at_the_end(embedded: EmbeddedPostgres, *, shown: bool) -> Iterator[None]:
    try:
        yield
    finally:
        with bar(_console, "Stopping PostgreSQL", shown=shown):
            embedded.stop()
