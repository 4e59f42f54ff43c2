"""The Coolify emulator of the demo, in a process of its own: a minute passes in a second."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from botpool.cli.demo.child_process import ChildProcess, child_process
from botpool.cli.demo.scenario import SLOTS
from botpool.cli.emulate import coolify_settings
from botpool.emulators.coolify import EmulatorConfig

SCALE = 60
REQUESTS_PER_MINUTE = 200
"""Coolify's limit, per emulated minute."""

_TOKEN = "1|demo"  # noqa: S105 - the token of the emulator only
_READY = re.compile(r"answers at (?P<url>http://\S+)")
_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CoolifyCounts:
    """The emulator's own counts, independent of Botpool."""

    pulls: int
    """Downloads of the image."""
    most_requests: int
    """Requests in the busiest emulated minute."""
    containers: int
    """Running containers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedCoolify:
    process: ChildProcess
    url: str

    def counts(self) -> CoolifyCounts:
        response = httpx.get(f"{self.url}/_emulator/state", timeout=_TIMEOUT_S, trust_env=False)
        state = response.raise_for_status().json()
        return CoolifyCounts(
            pulls=sum(state["pulls"].values()),
            most_requests=max(state["requestsByMinute"]),
            containers=state["runningContainers"],
        )

    def settings(self, port: int) -> str:
        """The settings of the demo's Botpool, with times shortened like the emulator's."""
        config = EmulatorConfig(token=_TOKEN)
        common = coolify_settings(f"{self.url}/api/v1", config, SCALE, port=port, max_size=SLOTS)
        # `common` ends in the section [deploy].
        return f"{common}grace_s = {180 / SCALE}\n\n[agent]\nheartbeat_interval_ms = 500\n"


@contextmanager
def emulated_coolify(directory: Path) -> Iterator[EmulatedCoolify]:
    """Run the emulator for the block, then stop it with all its containers."""
    arguments = ["emulate", "coolify", "--port", "0", "--token", _TOKEN]
    arguments += ["--time-scale", str(SCALE)]
    with child_process("emulator", arguments, directory) as emulator:
        yield EmulatedCoolify(process=emulator, url=emulator.wait_for_output(_READY)["url"])


def free_port() -> int:
    """A port that is free now, for the settings of a server that starts later."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
