"""The demo's Coolify: the emulator in a process of its own, where a minute passes in a second."""

import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from botpool.cli.demo.cast import PLATFORM, SLOTS
from botpool.cli.demo.program import Program, program

SCALE = 60
REQUESTS_PER_MINUTE = 200
"""What Coolify takes, in its own minutes."""

_IMAGE = "acme/meeting-bot:1.4"
_TOKEN = "1|demo"  # noqa: S105 - it opens nothing but the demo's emulator
_READY = re.compile(r"answers at (?P<url>http://\S+)")
_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the emulated Coolify has counted so far: the platform's word, not Botpool's."""

    pulls: int
    """Downloads of the image."""
    most_requests: int
    """In the busiest of its minutes."""
    containers: int
    """That run at present."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedCoolify:
    program: Program
    url: str

    def counted(self) -> Counted:
        answer = httpx.get(f"{self.url}/_emulator/state", timeout=_TIMEOUT_S, trust_env=False)
        state = answer.raise_for_status().json()
        pulls: Mapping[str, int] = state["pulls"]
        return Counted(
            pulls=sum(pulls.values()),
            most_requests=max(state["requestsByMinute"]),
            containers=state["runningContainers"],
        )

    def settings(self, port: int) -> str:
        """Botpool's, with everything that is about Coolify's time as much shorter as that is."""
        return f"""\
[server]
public_url = "http://127.0.0.1:{port}"

[pools.{PLATFORM}]
backend = "coolify"
image = "{_IMAGE}"
max_size = {SLOTS}

[backends.coolify]
url = "{self.url}"
token = "{_TOKEN}"
project_uuid = "emulated-project"
server_uuid = "emulated-server"
requests_per_minute = {REQUESTS_PER_MINUTE * SCALE}
status_lag_s = {60 / SCALE}

[deploy]
poll_interval_s = {15 / SCALE}
grace_s = {180 / SCALE}

[agent]
heartbeat_interval_ms = 500
"""


@contextmanager
def emulated_coolify(directory: Path) -> Iterator[EmulatedCoolify]:
    """Ends with every container in it."""
    arguments = ["emulate", "coolify", "--port", "0", "--token", _TOKEN]
    arguments += ["--time-scale", str(SCALE)]
    with program("emulator", arguments, directory) as emulator:
        yield EmulatedCoolify(program=emulator, url=emulator.await_said(_READY)["url"])


def free_port() -> int:
    """One that containers can be told before the server has it."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port: int = listener.getsockname()[1]
        return port
