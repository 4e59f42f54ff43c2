"""`botpool up` and `botpool serve`: run Botpool on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from botpool.cli.options import ConfigOption, DataDirOption

HostOption = Annotated[str | None, typer.Option(help="The address to listen on.")]
PortOption = Annotated[int | None, typer.Option(help="The port to listen on. Default: 8700")]


def up(
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    host: HostOption = None,
    port: PortOption = None,
) -> None:
    """Run everything here: database, server, dashboard and pools.

    The command needs no other software and no settings. On a terminal it prints the dashboard's
    address with its key, elsewhere the path of the key, and a request to paste. Ctrl-C stops
    everything, running and queued bots too.

    \b
    botpool up
    botpool up --port 8800 --data-dir /var/lib/botpool
    """
    _serve(config, data_dir, host, port, interactive=True)


def serve(
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    host: HostOption = None,
    port: PortOption = None,
) -> None:
    """Run one replica, for a supervisor such as systemd or Docker.

    The schema must be up to date ('botpool migrate'). SIGTERM hands the work over to the other
    replicas; bots keep running.

    \b
    botpool serve --config /etc/botpool.toml
    """
    _serve(config, data_dir, host, port, interactive=False)


def _serve(
    config: Path | None,
    data_dir: Path | None,
    host: str | None,
    port: int | None,
    *,
    interactive: bool,
) -> None:
    import asyncio

    from botpool.settings import load_settings

    overrides = {"data_dir": data_dir, "server": {"host": host, "port": port}}
    settings = load_settings(config, overrides)

    # After the settings: an invalid setting is reported before the heavy imports.
    import uvloop

    from botpool import logs
    from botpool.cli.server_process import run

    logs.configure()
    try:
        uvloop.run(run(settings, interactive=interactive))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
