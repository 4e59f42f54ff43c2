"""From settings to a served replica, and back down in order."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterator

from rich.console import Console

from botpool.api.server import HttpServer, bound_socket
from botpool.app import Installed, http_app, public_url_of, replica_running
from botpool.cli.progress import bar
from botpool.cli.welcome import greet
from botpool.domain.tokens import new_api_key
from botpool.engine.replica import Replica
from botpool.settings import Settings
from botpool.store.data_dir import DataDir, write_private
from botpool.store.embedded import EmbeddedPostgres
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
            public_url = public_url_of(settings, listener)
            async with replica_running(settings, installed, public_url=public_url) as replica:
                server = HttpServer(
                    http_app(replica, settings),
                    listener,
                    trusted_proxies=settings.server.trusted_proxies,
                )
                if not friendly:
                    await server.serve(before_stop=replica.changes.close)
                    return
                key = await _first_key(installed.data_dir, replica)
                await server.serve(
                    on_ready=lambda: greet(_console, public_url, key),
                    before_stop=lambda: _take_bots_along(replica),
                )


def _cancel_when_interrupted() -> None:
    """Until the HTTP server takes the signals over, one of them undoes the start in order."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


@contextlib.asynccontextmanager
async def _installed(settings: Settings, *, friendly: bool) -> AsyncIterator[Installed]:
    """The database and the identity: of a server by URL, or embedded in the data directory."""
    data_dir = DataDir.open(settings.data_dir)
    if not settings.database.embedded:
        assert settings.installation.id is not None
        assert settings.installation.secret is not None
        yield Installed(
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
        with bar(_console, "Starting PostgreSQL", shown=friendly) as shown:
            url = embedded.start()
            migrate(
                url, on_progress=lambda done, of: shown.tell(done, of, "Preparing the database")
            )
        secret = settings.installation.secret
        yield Installed(
            database_url=url,
            installation_id=settings.installation.id or identity.id,
            secret=secret.get_secret_value() if secret else identity.secret,
            data_dir=data_dir,
        )


@contextlib.contextmanager
def _stopped_at_the_end(embedded: EmbeddedPostgres, *, shown: bool) -> Iterator[None]:
    try:
        yield
    finally:
        with bar(_console, "Stopping PostgreSQL", shown=shown):
            embedded.stop()


async def _first_key(data_dir: DataDir, replica: Replica) -> str:
    """The key of the first start, kept in the data directory for its owner."""
    if data_dir.key.exists():
        key = data_dir.key.read_text().strip()
    else:
        key = new_api_key()
        write_private(data_dir.key, key + "\n")
    await replica.keys.adopt(key, "first key", "admin")
    return key


async def _take_bots_along(replica: Replica) -> None:
    """Ctrl-C stops all of it: no bot is left running, and none waiting for nobody."""
    with bar(_console, "Stopping bots") as shown:
        most = 0

        def tell(left: int) -> None:
            nonlocal most
            most = max(most, left)
            shown.tell(most - left, most)

        await replica.ending.end_all(reason="Botpool was stopped", on_left=tell)
    # Last: whoever looks on sees the bots end.
    await replica.changes.close()
