"""`up`, `serve`, `migrate` and `demo`: running Botpool on this machine."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from botpool.cli.connection import ConfigOption, DataDirOption
from botpool.cli.importing import importing

if TYPE_CHECKING:
    from botpool.settings import Settings

HostOption = Annotated[str | None, typer.Option(help="The address to listen on.")]
PortOption = Annotated[int | None, typer.Option(help="The port to listen on. Default: 8700")]


def up(
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    host: HostOption = None,
    port: PortOption = None,
) -> None:
    """Run everything here: database, server, dashboard, pools.

    Nothing needs to be installed or set up. The dashboard's address is printed with its key, and a
    request to paste. Ctrl-C stops all of it; bots that run or wait then are ended.

    \b
    botpool up
    botpool up --port 8800 --data-dir /var/lib/botpool
    """
    _serve(config, _overrides(data_dir, host, port), friendly=True)


def serve(
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    host: HostOption = None,
    port: PortOption = None,
) -> None:
    """Run one replica, for a supervisor such as systemd or Docker.

    The schema must be up to date ('botpool migrate'). SIGTERM hands the work over to the other
    replicas; bots go on running.

    \b
    botpool serve --config /etc/botpool.toml
    """
    _serve(config, _overrides(data_dir, host, port), friendly=False)


def migrate(config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Bring the database's schema up to date. Safe to run again, and from many at once.

    \b
    botpool migrate --config /etc/botpool.toml
    """
    from botpool.settings import load_settings

    settings = load_settings(config, _overrides(data_dir, None, None))

    from botpool.cli.output import console
    from botpool.cli.progress import bar
    from botpool.store.migrations import migrate as apply

    err = console(sys.stderr)
    with bar(err, "Preparing the database") as shown, database_url(settings) as url:
        applied = apply(url, on_progress=shown.tell)
    for name in applied:
        typer.echo(f"applied {name}")
    if not applied:
        typer.echo("The schema is up to date.")


def demo(
    coolify: Annotated[
        bool, typer.Option("--coolify", help="Run the bots on an emulated Coolify.")
    ] = False,
) -> None:
    """Watch a busy morning: a full pool, a queue, a crash.

    Everything is real but the meetings: database, server, processes and requests over HTTP. It
    takes about half a minute, in a directory of its own that is removed at the end.

    With --coolify the bots run on an emulated Coolify whose minutes pass in seconds: the image is
    pulled once, for all of the first starts, and later ones are quick.

    \b
    botpool demo --coolify
    """
    from botpool.cli.demo import run

    raise typer.Exit(run(on_coolify=coolify))


def _overrides(data_dir: Path | None, host: str | None, port: int | None) -> dict[str, object]:
    return {"data_dir": data_dir, "server": {"host": host, "port": port}}


@contextmanager
def database_url(settings: "Settings") -> Iterator[str]:
    """The database of the settings; an embedded one that does not run is started meanwhile."""
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


def _serve(config: Path | None, overrides: dict[str, object], *, friendly: bool) -> None:
    with importing():
        import asyncio

        from botpool.settings import load_settings

    settings = load_settings(config, overrides)

    # After the settings: a wrong one is told without loading everything else.
    with importing():
        import uvloop

        from botpool import logs
        from botpool.cli.running import run

    logs.configure()
    try:
        uvloop.run(run(settings, friendly=friendly))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
