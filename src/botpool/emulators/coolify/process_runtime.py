"""Runs the program of each emulated container as a local process.

Each process leads its own session, so that its children end with it. Each run has a new empty
directory, as a new container has a new file system.
"""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

DEMO_BOT = (sys.executable, "-m", "botpool.agent.demo")
MAX_OUTPUT_BYTES = 1 << 20
_CLOSE_GRACE_S = 3.0
_INHERITED_VARIABLES = ("PATH", "PYTHONPATH", "LANG", "TZ", "TMPDIR")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Run:
    process: subprocess.Popen[bytes] | None
    """None: the program could not be started."""
    home: Path
    output: IO[bytes]


class ProcessRuntime:
    """A context manager that stops all its processes at the end."""

    def __init__(self, command: Sequence[str] = DEMO_BOT) -> None:
        self._command = tuple(command)
        self._runs: dict[Hashable, _Run] = {}
        self._numbers = itertools.count(1)
        self._directory = tempfile.TemporaryDirectory(
            prefix="botpool-emulator-", ignore_cleanup_errors=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def start(self, application_uuid: str, environment: Mapping[str, str]) -> Hashable:
        inherited = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
        home = Path(self._directory.name) / str(next(self._numbers))
        home.mkdir()
        # Append mode, so that the file can be truncated while the process writes.
        output = home.with_suffix(".log").open("ab")
        process = None
        with contextlib.suppress(OSError):
            process = subprocess.Popen(
                self._command,
                env={**inherited, "HOME": str(home), **_valid_environment(environment)},
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        handle = object()
        self._runs[handle] = _Run(process=process, home=home, output=output)
        return handle

    def request_stop(self, handle: Hashable) -> None:
        """Send SIGTERM to the first process only, as Docker does."""
        run = self._runs.get(handle)
        if run is not None and run.process is not None:
            # Popen.send_signal would reap the process.
            os.kill(run.process.pid, signal.SIGTERM)

    def stop(self, handle: Hashable) -> None:
        run = self._runs.pop(handle, None)
        if run is None:
            return
        if run.process is not None:
            # Kill before reaping: afterwards the system may reuse the group id.
            os.killpg(run.process.pid, signal.SIGKILL)
            run.process.wait()
        run.output.close()
        Path(run.output.name).unlink()
        # A process that left the session may still write here; `close` removes the rest.
        shutil.rmtree(run.home, ignore_errors=True)

    def is_running(self, handle: Hashable) -> bool:
        run = self._runs.get(handle)
        if run is None or run.process is None:
            return False
        if os.fstat(run.output.fileno()).st_size > MAX_OUTPUT_BYTES:
            os.ftruncate(run.output.fileno(), 0)
        return not _has_ended(run.process)

    def output(self, handle: Hashable, lines: int) -> str:
        run = self._runs.get(handle)
        if run is None:
            return ""
        text = Path(run.output.name).read_text(errors="replace")
        return "".join(text.splitlines(keepends=True)[-lines:] if lines else [])

    def close(self) -> None:
        """Send SIGTERM to all processes, and SIGKILL to those that ignore it."""
        for handle in self._runs:
            self.request_stop(handle)
        deadline = time.monotonic() + _CLOSE_GRACE_S
        while time.monotonic() < deadline and any(map(self.is_running, self._runs)):
            time.sleep(0.02)
        for handle in tuple(self._runs):
            self.stop(handle)
        self._directory.cleanup()


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Check without reaping: the system may reuse the pid of a reaped process."""
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, process.pid, options) is not None


def _valid_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Drop the names and characters that the operating system does not accept."""
    return {
        _encodable(name): _encodable(value).replace("\0", "")
        for name, value in environment.items()
        if name and "=" not in name and "\0" not in name
    }


def _encodable(text: str) -> str:
    """Replace lone surrogates, which JSON can hold and an environment cannot."""
    return text.encode(errors="replace").decode()
