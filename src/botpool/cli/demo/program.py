"""A command of Botpool's own, run for the demo: started, listened to, and surely ended."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from botpool.domain.errors import BotpoolError

_START_LIMIT_S = 120.0
_STOP_LIMIT_S = 60.0
_FOREIGN = ("BOTPOOL_", "DATABASE_URL", "COOLIFY_")


@dataclass(eq=False)
class StageFailed(BotpoolError):
    name: str
    detail: str

    def __str__(self) -> str:
        return f"The demo's {self.name} did not start: {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    name: str
    process: "subprocess.Popen[bytes]"
    said: Path
    log: Path

    def await_said(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """What it prints for a person once it is ready."""
        deadline = time.monotonic() + _START_LIMIT_S
        while time.monotonic() < deadline:
            if ready := pattern.search(self.said.read_text()):
                return ready
            if self.process.poll() is not None:
                lines = self.log.read_text(errors="replace").strip().splitlines()
                last = lines[-1].removeprefix("botpool: ") if lines else "it said nothing"
                raise StageFailed(self.name, last)
            time.sleep(0.05)
        raise StageFailed(self.name, f"it was not ready after {_START_LIMIT_S:.0f} s")

    def leftovers(self) -> list[str]:
        """A complaint if it did not end well; to be asked when it was stopped."""
        code = self.process.returncode
        return [f"the {self.name} ended with code {code}"] if code else []


@contextmanager
def program(name: str, arguments: Sequence[str], directory: Path) -> Iterator[Program]:
    """In a session of its own: a Ctrl-C is ours, and it is stopped once, by us."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)
    }
    said, log = directory / f"{name}.said", directory / f"{name}.log"
    with said.open("wb") as output, log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "botpool.cli", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
    try:
        yield Program(name=name, process=process, said=said, log=log)
    finally:
        _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """As Ctrl-C does; told again, it waits for nobody. Killed only when even that is no use."""
    for limit_s in (_STOP_LIMIT_S, _STOP_LIMIT_S / 2):
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(limit_s)
            return
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            continue
    process.kill()
    process.wait()
