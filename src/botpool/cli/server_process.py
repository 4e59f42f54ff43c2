"""Starts a server from its settings, and stops it in the reverse order."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from rich.console import Console

from botpool.api.file_limit import backlog_of, files_needed, raise_file_limit
from botpool.api.listener import listening_socket
from botpool.cli.database import installation_of
from botpool.cli.progress import Update, bar
from botpool.cli.target import local_url
from botpool.settings import Settings
from botpool.store.data_dir import DataDir, write_private
from botpool.store.embedded import EmbeddedPostgres
from botpool.store.installation import Installation
from botpool.store.migrator import migrate

_console = Console()


async def run(settings: Settings, *, interactive: bool) -> None:
    """Serve until a signal.

    `interactive` is `botpool up`: it prints how to go on, and at the end it stops all bots.
    """
    _cancel_on_signal()
    connections = settings.limits.connections
    raise_file_limit(files_needed(connections))
    server, backlog = settings.server, backlog_of(connections)
    with listening_socket(server.host, server.port, backlog=backlog) as listener:
        async with _installation(settings, interactive=interactive) as installed:
            from botpool.cli.serve_replica import serve

            with _announced(settings, listener):
                await serve(settings, installed, listener, _console if interactive else None)
    if interactive:
        _console.print(f"Stopped. The data is in {settings.data_dir}.", markup=False)


@contextlib.contextmanager
def _announced(settings: Settings, listener: socket.socket) -> Iterator[None]:
    """Keep the address in the data directory of embedded mode, where commands look for it."""
    if not settings.database.embedded:
        yield
        return
    file = DataDir.open(settings.data_dir).address
    write_private(file, local_url(settings.server.host, listener.getsockname()[1]) + "\n")
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def _cancel_on_signal() -> None:
    """Let a signal cancel the start, until the HTTP server handles signals."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


@contextlib.asynccontextmanager
async def _installation(settings: Settings, *, interactive: bool) -> AsyncIterator[Installation]:
    """The database and the identity, from the settings or from the data directory."""
    data_dir = DataDir.open(settings.data_dir)
    if not settings.database.embedded:
        yield installation_of(settings, data_dir)
        return
    with data_dir.locked(), contextlib.ExitStack() as stack:
        data_dir.installation()  # A damaged identity stops the start before the database runs.
        embedded = EmbeddedPostgres(data_dir)
        # Before the start: an interrupted start may leave PostgreSQL running.
        stack.enter_context(_stopped_at_the_end(embedded, shown=interactive))
        with (
            bar(_console, "Starting PostgreSQL", shown=interactive) as update,
            ThreadPoolExecutor(1) as executor,
        ):
            starting = executor.submit(_start, embedded, update)
            # The longest part of a start, so it runs beside the start of PostgreSQL.
            import botpool.cli.serve_replica  # noqa: F401

            url = starting.result()
        yield installation_of(settings, data_dir, url)


def _start(embedded: EmbeddedPostgres, update: Update) -> str:
    url = embedded.start()
    migrate(url, on_progress=partial(update, title="Preparing the database"))
    return url


@contextlib.contextmanager
def _stopped_at_the_end(embedded: EmbeddedPostgres, *, shown: bool) -> Iterator[None]:
    try:
        yield
    finally:
        with bar(_console, "Stopping PostgreSQL", shown=shown):
            embedded.stop()
