"""Runs a `botpool` command as a child process of the demo."""

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

from botpool.cli.errors import CommandFailed

_START_LIMIT_S = 120.0
_STOP_LIMIT_S = 60.0
_SETTINGS_PREFIXES = ("BOTPOOL_", "DATABASE_URL", "COOLIFY_")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildProcess:
    name: str
    process: "subprocess.Popen[bytes]"
    output: Path
    log: Path

    def wait_for_output(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Wait until the process prints the pattern, which it does when it is ready."""
        deadline = time.monotonic() + _START_LIMIT_S
        while time.monotonic() < deadline:
            if ready := pattern.search(self.output.read_text()):
                return ready
            if self.process.poll() is not None:
                lines = self.log.read_text(errors="replace").strip().splitlines()
                last = lines[-1].removeprefix("botpool: ") if lines else "it printed nothing"
                raise self._start_failed(last)
            time.sleep(0.05)
        raise self._start_failed(f"it was not ready after {_START_LIMIT_S:.0f} s")

    def _start_failed(self, reason: str) -> CommandFailed:
        return CommandFailed(f"The demo's {self.name} did not start: {reason}")

    def exit_problems(self) -> list[str]:
        """A problem, if the stopped process ended with another exit code than 0."""
        code = self.process.returncode
        return [f"the {self.name} ended with code {code}"] if code else []


@contextmanager
def child_process(name: str, arguments: Sequence[str], directory: Path) -> Iterator[ChildProcess]:
    """Run a command for the block, then stop it.

    The process has a session of its own, so that Ctrl-C reaches only the demo.
    """
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(_SETTINGS_PREFIXES)
    }
    output, log = directory / f"{name}.out", directory / f"{name}.log"
    with output.open("wb") as stdout, log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "botpool.cli", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        yield ChildProcess(name=name, process=process, output=output, log=log)
    finally:
        _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Send SIGTERM, send it again after a minute, then kill the process."""
    for limit_s in (_STOP_LIMIT_S, _STOP_LIMIT_S / 2):
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(limit_s)
            return
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            continue
    process.kill()
    process.wait()
