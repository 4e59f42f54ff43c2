"""The demo's own installation: `botpool up` in a directory that is gone afterwards."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from botpool.backends.process.directory import Directory
from botpool.cli.connection import Target
from botpool.cli.demo.cast import FIRST_START_S, LATER_START_S, PLATFORM, SLOTS
from botpool.domain.errors import BotpoolError
from botpool.domain.ids import ContainerId
from botpool.store.data_dir import DataDir
from botpool.store.embedded import EmbeddedPostgres

_READY = re.compile(r"^(?P<url>http://\S+)/#key=(?P<key>\S+)$", re.MULTILINE)
_START_LIMIT_S = 120.0
_STOP_LIMIT_S = 60.0
_FOREIGN = ("BOTPOOL_", "DATABASE_URL", "COOLIFY_")

_SETTINGS = f"""\
[pools.{PLATFORM}]
max_size = {SLOTS}

[backends.process]
first_start_s = {FIRST_START_S}
start_s = {LATER_START_S}
"""


@dataclass(eq=False)
class StageFailed(BotpoolError):
    detail: str

    def __str__(self) -> str:
        return f"The demo's server did not start: {self.detail}"


@dataclass(slots=True, kw_only=True)
class Stage:
    target: Target
    data_dir: DataDir
    leftovers: list[str] = field(default_factory=list)
    """What was still there when everything had been stopped. Complete after the stage closed."""

    def running_bots(self) -> list[str]:
        """Containers in which something runs, by their locks: the kernel's word, not ours."""
        root = self.data_dir.containers
        found = [entry.name for entry in root.iterdir() if not entry.name.startswith(".")]
        return [
            f"a process still runs in {name}"
            for name in sorted(found)
            if Directory(str(root), ContainerId(name)).is_held()
        ]


@contextmanager
def stage() -> Iterator[Stage]:
    """A running Botpool with nothing in it. However the block ends, nothing of it stays."""
    with tempfile.TemporaryDirectory(prefix="botpool-demo-", ignore_cleanup_errors=True) as path:
        root = Path(path)
        data_dir = DataDir.open(root / "data")
        with _server(root, data_dir) as server:
            playing = Stage(target=_await_ready(server, root), data_dir=data_dir)
            yield playing
        if server.returncode != 0:
            playing.leftovers.append(f"the server ended with code {server.returncode}")
        playing.leftovers.extend(playing.running_bots())
        if EmbeddedPostgres(data_dir).attach() is not None:
            playing.leftovers.append("PostgreSQL still runs")


@contextmanager
def _server(root: Path, data_dir: DataDir) -> Iterator["subprocess.Popen[bytes]"]:
    """In a session of its own: a Ctrl-C is ours, and the server is stopped once, by us."""
    settings = root / "botpool.toml"
    settings.write_text(_SETTINGS)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)
    }
    command = [sys.executable, "-P", "-m", "botpool.cli", "up", "--port", "0"]
    command += ["--config", str(settings), "--data-dir", str(data_dir.root)]
    with (root / "said").open("wb") as said, (root / "log").open("wb") as log:
        server = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield server
    finally:
        _stop(server)


def _await_ready(server: "subprocess.Popen[bytes]", root: Path) -> Target:
    """The server's address and key, as it prints them for a person."""
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline:
        if ready := _READY.search((root / "said").read_text()):
            return Target(url=ready["url"], key=ready["key"], key_from="the demo's own server")
        if server.poll() is not None:
            lines = (root / "log").read_text(errors="replace").strip().splitlines()
            raise StageFailed(lines[-1].removeprefix("botpool: ") if lines else "it said nothing")
        time.sleep(0.05)
    raise StageFailed(f"it was not ready after {_START_LIMIT_S:.0f} s")


def _stop(server: "subprocess.Popen[bytes]") -> None:
    """As Ctrl-C does; told again, it waits for nobody. Killed only when even that is no use."""
    for limit_s in (_STOP_LIMIT_S, _STOP_LIMIT_S / 2):
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(limit_s)
            return
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            continue
    server.kill()
    server.wait()
