"""`botpool emulate`: emulated backends, to try Botpool without installing or paying anything."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from botpool.cli.errors import UsageError

if TYPE_CHECKING:
    from botpool.emulators.coolify import ContainerRuntime, EmulatorConfig, EmulatorServer

_DEMO_BOT = "the demo bot"
_POLL_INTERVAL_S = 15.0
_SHORTEST_POLL_INTERVAL_S = 0.5
_TOKEN = "1|emulated"  # noqa: S105 - the token of the emulator only


def coolify(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0: any free port.")
    ] = 8701,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    token: Annotated[str, typer.Option(help="The API token to accept.")] = _TOKEN,
    time_scale: Annotated[
        float, typer.Option(help="Emulated seconds per second; 60 runs a minute in a second.")
    ] = 1.0,
    concurrent_builds: Annotated[
        int, typer.Option(min=1, help="Deployments at once on the server; others are queued.")
    ] = 2,
    workers: Annotated[
        int, typer.Option(min=1, help="Jobs at once: deployments, stops and deletes together.")
    ] = 4,
    seed: Annotated[int, typer.Option(help="The same seed gives the same delays and faults.")] = 0,
    command: Annotated[
        str, typer.Option(help="The command that runs in every container, for any image.")
    ] = _DEMO_BOT,
    no_processes: Annotated[
        bool, typer.Option("--no-processes", help="Start no processes for the containers.")
    ] = False,
) -> None:
    """Run an emulated Coolify, with its API, delays and failures.

    Containers are local processes. Pulling an image takes its time, but downloads nothing. A first
    start takes 7 minutes, a later one 30 seconds; --time-scale shortens both. The command prints
    a botpool.toml to paste, and requests that show the emulator's state and set faults.

    \b
    botpool emulate coolify --time-scale 60
    botpool emulate coolify --concurrent-builds 20 --workers 24
    """
    import asyncio

    if not 0 < time_scale <= 100_000:
        raise UsageError("--time-scale: must be more than 0 and at most 100000")
    if not token.isascii() or not token.isprintable() or token.strip() != token or not token:
        raise UsageError("--token: must be printable ASCII without spaces around it")

    from botpool.emulators.coolify import (
        EmulatedClock,
        EmulatedCoolify,
        EmulatorConfig,
        EmulatorServer,
    )

    config = EmulatorConfig(token=token, concurrent_builds=concurrent_builds, workers=workers)
    with _runtime(command, no_processes=no_processes) as runtime:
        emulated = EmulatedCoolify(config, seed=seed, runtime=runtime)
        server = EmulatorServer(emulated, EmulatedClock(time_scale), host=host, port=port)
        asyncio.run(_serve(server, config, time_scale))


@contextmanager
def _runtime(command: str, *, no_processes: bool) -> "Iterator[ContainerRuntime]":
    import shlex
    import shutil

    from botpool.emulators.coolify import ProcessRuntime, SimulatedRuntime
    from botpool.emulators.coolify.process_runtime import DEMO_BOT

    if no_processes:
        yield SimulatedRuntime()
        return
    try:
        words = DEMO_BOT if command == _DEMO_BOT else shlex.split(command) or [""]
    except ValueError as error:
        raise UsageError(f"--command: {str(error).lower()}") from error
    if shutil.which(words[0]) is None:
        raise UsageError(f"--command: {words[0]!r} is not a command on this machine")
    with ProcessRuntime(words) as runtime:
        yield runtime


async def _serve(server: "EmulatorServer", config: "EmulatorConfig", time_scale: float) -> None:
    """Serve until a signal, then stop all containers."""
    import asyncio
    import signal

    try:
        await server.start()
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise UsageError(f"--port: {server.url} cannot be used: {problem}") from error
    stop = asyncio.Event()
    loop, signals = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    typer.echo(instructions(server.url, config, time_scale))
    waiting = {asyncio.ensure_future(stop.wait()), asyncio.ensure_future(server.wait_failed())}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        for number in signals:
            # A second signal must not interrupt the stop of the containers, which takes seconds.
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
        await server.stop()


def instructions(url: str, config: "EmulatorConfig", time_scale: float) -> str:
    """Settings for Botpool and requests for the emulator, ready to paste."""
    return f"""
An emulated Coolify answers at {url}

  API          {url}/api/v1
  token        {config.token}
  project      {config.project}
  server       {config.server}
  environment  {config.environment}
  time         one real second is {time_scale:g} emulated seconds

A complete botpool.toml for it:

{coolify_settings(url, config, time_scale)}
Show the emulator's state, set a fault, clear all faults:

curl -s {url}/_emulator
curl -s {url}/_emulator/state
curl -s {url}/_emulator/faults -d '{{"stopDoesNothing": {{"times": 1}}}}'
curl -s {url}/_emulator/faults -d '{{"clear": true}}'

Ctrl-C stops the emulator and all its containers.
"""


def coolify_settings(
    url: str, config: "EmulatorConfig", time_scale: float, *, port: int = 8700, max_size: int = 5
) -> str:
    """The settings of a Botpool that uses the emulator, with times shortened like its own."""
    import json

    requests = max(int(config.requests_per_minute * time_scale), 1)
    poll_s = max(_POLL_INTERVAL_S / time_scale, _SHORTEST_POLL_INTERVAL_S)
    return f"""\
[server]
public_url = "http://127.0.0.1:{port}"

[pools.google-meet]
backend = "coolify"
image = "example/bot:1"
max_size = {max_size}

[backends.coolify]
url = "{url}"
token = {json.dumps(config.token)}
project_uuid = "{config.project}"
server_uuid = "{config.server}"
environment_name = "{config.environment}"
requests_per_minute = {requests}
status_lag_s = {config.status_lag_s[1] / time_scale:g}

[deploy]
poll_interval_s = {poll_s:g}
"""
