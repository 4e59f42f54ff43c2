"""Serves a replica over HTTP until a signal."""

import shlex
import socket

from rich.console import Console

from botpool.api.app import connection_limits_of
from botpool.api.file_limit import allowed_files, files_needed, lowered_to_file_limit
from botpool.api.listener_probe import ListenerProbe
from botpool.api.server import HttpServer
from botpool.app import http_app, public_url_of, running_replica
from botpool.cli.progress import bar
from botpool.domain.tokens import new_api_key
from botpool.engine.maintenance.liveness import WatchedListener
from botpool.engine.replica import Replica
from botpool.settings import Settings
from botpool.store.data_dir import DataDir, write_private
from botpool.store.installation import Installation


async def serve(
    settings: Settings, installed: Installation, listener: socket.socket, console: Console | None
) -> None:
    """Serve until a signal. With a console (`botpool up`), greet there and stop all bots."""
    public_url = public_url_of(settings, listener)
    async with running_replica(settings, installed, public_url=public_url) as replica:
        wanted = connection_limits_of(settings)
        limits = lowered_to_file_limit(wanted, files := allowed_files())
        server = HttpServer(
            http_app(replica, settings, limits),
            listener,
            trusted_proxies=settings.server.trusted_proxies,
            limits=limits,
            drain_s=settings.server.drain_s,
            on_closed=replica.metrics.connection_closed,
        )
        replica.watch_listener(
            WatchedListener(
                answers=ListenerProbe(listener, server.connections).answers,
                file_limit=files,
                files_needed=files_needed(wanted.connections),
            ),
            connections=server.connections.count,
        )
        if console is None:
            await server.serve(on_drain=replica.readiness.drain, before_stop=replica.changes.close)
            return
        key = await first_key(installed.data_dir, replica)
        await server.serve(
            on_ready=lambda: _print_welcome(console, public_url, key, installed.data_dir),
            before_stop=lambda: _stop_bots(replica, console),
        )


async def first_key(data_dir: DataDir, replica: Replica) -> str:
    """The key of the first start, stored in the data directory.

    A text from an earlier start becomes a key only in a database without keys: after a rotation,
    the file still holds the former text, which must stay invalid.
    """
    is_new = not data_dir.key.exists()
    if is_new:
        write_private(data_dir.key, new_api_key() + "\n")
    key = data_dir.key.read_text().strip()
    if is_new or not await replica.api_keys.list_all():
        await replica.api_keys.adopt(key, "first key", "admin")
    return key


async def _stop_bots(replica: Replica, console: Console) -> None:
    """End all running and queued bots, then close the stream of changes."""
    with bar(console, "Stopping bots") as update:
        most = 0

        def show_left(left: int) -> None:
            nonlocal most
            most = max(most, left)
            update(most - left, most)

        await replica.shutdown.end_all(reason="Botpool was stopped", on_left=show_left)
    # After the bots, so that a dashboard shows their end.
    await replica.changes.close()


def _print_welcome(console: Console, url: str, key: str, data_dir: DataDir) -> None:
    """Print how to go on. The dashboard's address is alone on its line, ready to copy.

    The key appears only on a terminal; elsewhere, the output may be a log that others read.
    """
    if console.file.isatty():
        opening = "Open the dashboard; the address contains its key:"
        address, shown_key = f"{url}/#key={key}", f"'Authorization: Bearer {key}'"
    else:
        opening = f"Open the dashboard with the key in {data_dir.key}:"
        address = f"{url}/"
        shown_key = f'"Authorization: Bearer $(cat {shlex.quote(str(data_dir.key))})"'
    text = f"""
Botpool is ready. {opening}

{address}

Send a demo bot, which joins no real meeting and stays ten seconds:

curl -s {url}/v1/bots -H {shown_key} \\
  -H 'Content-Type: application/json' \\
  -d '{{"meetingUrl": "https://meet.google.com/abc-defg-hij"}}'

Ctrl-C stops everything.
"""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
