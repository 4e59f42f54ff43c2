"""`botpool emulate`: platforms to try Botpool against, with nothing installed and nothing paid."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from botpool.cli.errors import UsedWrongly

if TYPE_CHECKING:
    from botpool.emulators.coolify import ContainerRuntime, EmulatorConfig, EmulatorServer

_DEMO_BOT = "the demo bot"
_LOOK_INTERVAL_S = 15.0
_SHORTEST_LOOK_INTERVAL_S = 0.5
_TOKEN = "1|emulated"  # noqa: S105 - it opens nothing but the emulator


def coolify(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on. 0 takes a free one.")
    ] = 8701,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    token: Annotated[str, typer.Option(help="The API token that is accepted.")] = _TOKEN,
    time_scale: Annotated[
        float, typer.Option(help="Emulated seconds in a second: 60 runs a minute in a second.")
    ] = 1.0,
    concurrent_builds: Annotated[
        int, typer.Option(min=1, help="Deployments at once on the server; others wait in a queue.")
    ] = 2,
    workers: Annotated[
        int, typer.Option(min=1, help="Jobs at once: deployments, stops and deletes together.")
    ] = 4,
    seed: Annotated[int, typer.Option(help="The same seed, the same delays and faults.")] = 0,
    command: Annotated[
        str, typer.Option(help="What runs in every container, whatever its image.")
    ] = _DEMO_BOT,
    no_processes: Annotated[
        bool, typer.Option("--no-processes", help="Containers run in name only.")
    ] = False,
) -> None:
    """Run an emulated Coolify: its API, its delays and, on demand, its failures.

    Containers are local processes and images take their time to be pulled, but nothing is
    downloaded. A first start takes 7 minutes, a later one 30 seconds; --time-scale makes them
    shorter. Faults are set by HTTP. What is needed to go on is printed, ready to paste: a
    botpool.toml, and how to see what is true and let something go wrong.

    \b
    botpool emulate coolify --time-scale 60
    botpool emulate coolify --concurrent-builds 20 --workers 24
    """
    import asyncio

    if not 0 < time_scale <= 100_000:
        raise UsedWrongly("--time-scale", "must be more than 0 and at most 100000")
    if not token.isascii() or not token.isprintable() or token.strip() != token or not token:
        raise UsedWrongly("--token", "must be printable ASCII without spaces around it")

    from botpool.emulators.coolify import (
        EmulatedCoolify,
        EmulatorConfig,
        EmulatorServer,
        ScaledClock,
    )

    config = EmulatorConfig(token=token, concurrent_builds=concurrent_builds, workers=workers)
    with _runtime(command, no_processes=no_processes) as runtime:
        emulated = EmulatedCoolify(config, seed=seed, runtime=runtime)
        server = EmulatorServer(emulated, ScaledClock(time_scale), host=host, port=port)
        asyncio.run(_serve(server, config, time_scale))


@contextmanager
def _runtime(command: str, *, no_processes: bool) -> "Iterator[ContainerRuntime]":
    import shlex
    import shutil

    from botpool.emulators.coolify import ProcessRuntime, SimulatedRuntime

    if no_processes:
        yield SimulatedRuntime()
        return
    if command == _DEMO_BOT:
        with ProcessRuntime() as runtime:
            yield runtime
        return
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsedWrongly("--command", str(error).lower()) from error
    if not words or shutil.which(words[0]) is None:
        raise UsedWrongly("--command", f"{words[0] if words else 'nothing'!r} cannot be run")
    with ProcessRuntime(words) as runtime:
        yield runtime


async def _serve(server: "EmulatorServer", config: "EmulatorConfig", time_scale: float) -> None:
    """Until a signal; then no container is left."""
    import asyncio
    import signal

    try:
        await server.start()
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise UsedWrongly("--port", f"{server.url} cannot be used: {problem}") from error
    stop = asyncio.Event()
    loop, signals = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    typer.echo(welcome(server.url, config, time_scale))
    waiting = {asyncio.ensure_future(stop.wait()), asyncio.ensure_future(server.wait_failed())}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        for number in signals:
            # Containers are still to be ended, within seconds: no second signal may break that off.
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
        await server.stop()


def welcome(url: str, config: "EmulatorConfig", time_scale: float) -> str:
    """Everything that is needed to go on, ready to paste."""
    import json

    requests = max(int(config.requests_per_minute * time_scale), 1)
    longest_lag_s = config.status_lag_s[1] / time_scale
    look_s = max(_LOOK_INTERVAL_S / time_scale, _SHORTEST_LOOK_INTERVAL_S)
    return f"""
An emulated Coolify answers at {url}

  API          {url}/api/v1
  token        {config.token}
  project      {config.project}
  server       {config.server}
  environment  {config.environment}
  time         one second here is {time_scale:g} s there

For Botpool, a whole botpool.toml:

[server]
public_url = "http://127.0.0.1:8700"

[pools.google-meet]
backend = "coolify"
image = "example/bot:1"
max_size = 5

[backends.coolify]
url = "{url}"
token = {json.dumps(config.token)}
project_uuid = "{config.project}"
server_uuid = "{config.server}"
environment_name = "{config.environment}"
requests_per_minute = {requests}
status_lag_s = {longest_lag_s:g}

[deploy]
poll_interval_s = {look_s:g}

See what is true, and let something go wrong:

curl -s {url}/_emulator
curl -s {url}/_emulator/state
curl -s {url}/_emulator/faults -d '{{"stopDoesNothing": {{"times": 1}}}}'
curl -s {url}/_emulator/faults -d '{{"clear": true}}'

Ctrl-C stops it, and every container with it.
"""
