"""The processes of a cluster, with a log file for each."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.kubernetes.programs import PROGRAM_PATH, CannotRun

READY_S = 120.0
_STOP_S = 10.0


class Child:
    """One process, which can be stopped and started again."""

    def __init__(
        self, name: str, log: Path, command: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self._log = log
        self._command = command
        self._environment = {"PATH": PROGRAM_PATH, **environment}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=self._environment
            )

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(number)
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + READY_S
        while not is_ready():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > give_up_at:
                raise CannotRun(f"{self.name} does not start: {self.last_words()}")
            time.sleep(0.05)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        wrong = [line for line in lines if line.startswith(("E", "F")) or "rror" in line]
        return (wrong or lines or ["its log is empty"])[-1][-400:]


def reap(known: frozenset[int]) -> None:
    """Wait for the orphans that the first process of a namespace inherits."""
    with contextlib.suppress(ChildProcessError):
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or ended.si_pid in known:
                return
            os.waitpid(ended.si_pid, 0)
