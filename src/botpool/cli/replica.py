"""A replica served over HTTP until a signal, and back down in order."""

import socket

from rich.console import Console

from botpool.api.server import HttpServer
from botpool.app import http_app, public_url_of, replica_running
from botpool.cli.progress import bar
from botpool.cli.welcome import greet
from botpool.domain.tokens import new_api_key
from botpool.engine.replica import Replica
from botpool.settings import Settings
from botpool.store.data_dir import DataDir, write_private
from botpool.store.installation import Installation


async def serve(
    settings: Settings, installed: Installation, listener: socket.socket, greeted: Console | None
) -> None:
    """`greeted` is who runs `botpool up`: told how to go on, and at the end bots go along."""
    public_url = public_url_of(settings, listener)
    async with replica_running(settings, installed, public_url=public_url) as replica:
        server = HttpServer(
            http_app(replica, settings),
            listener,
            trusted_proxies=settings.server.trusted_proxies,
        )
        if greeted is None:
            await server.serve(before_stop=replica.changes.close)
            return
        key = await _first_key(installed.data_dir, replica)
        await server.serve(
            on_ready=lambda: greet(greeted, public_url, key),
            before_stop=lambda: _take_bots_along(replica, greeted),
        )


async def _first_key(data_dir: DataDir, replica: Replica) -> str:
    """The key of the first start, kept in the data directory for its owner."""
    if data_dir.key.exists():
        key = data_dir.key.read_text().strip()
    else:
        key = new_api_key()
        write_private(data_dir.key, key + "\n")
    await replica.api_keys.adopt(key, "first key", "admin")
    return key


async def _take_bots_along(replica: Replica, console: Console) -> None:
    """Ctrl-C stops all of it: no bot is left running, and none waiting for nobody."""
    with bar(console, "Stopping bots") as shown:
        most = 0

        def tell(left: int) -> None:
            nonlocal most
            most = max(most, left)
            shown.tell(most - left, most)

        await replica.shutdown.end_all(reason="Botpool was stopped", on_left=tell)
    # Last: whoever looks on sees the bots end.
    await replica.changes.close()
