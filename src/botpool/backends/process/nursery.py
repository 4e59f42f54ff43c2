"""One interpreter that is up, and forks the launchers of this control plane.

It supervises nobody: launchers have sessions of their own and outlive it, as they outlive us. It
ends when we close our end of its socket, however we die. If it was killed, the next start makes
another; a start that was on its way to it gets no answer, and is made again.
"""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from botpool.backends.process import launcher

_PATIENCE_S = 5


class Nursery:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._orders: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self, order: int) -> int:
        """Start a launcher with that file as its order; where its answer is read."""
        heard, told = os.pipe()
        try:
            self._send(order, told)
        except BaseException:
            os.close(heard)
            raise
        finally:
            os.close(told)
        return heard

    def close(self) -> None:
        if self._orders is not None:
            self._orders.close()
        if self._process is not None:
            try:
                self._process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()  # It was suspended; nobody it forked depends on it.
                self._process.wait()
        self._orders = self._process = None

    def _send(self, *descriptors: int) -> None:
        if self._orders is not None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                _send(self._orders, descriptors)
                return
            self.close()
        self._orders = self._open()
        _send(self._orders, descriptors)

    def _open(self) -> socket.socket:
        ours, its = socket.socketpair()
        # This is the event loop's thread: what a suspended one does not take is refused.
        ours.setblocking(False)
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(launcher.__file__))],
                stdin=its.fileno(),
                stdout=subprocess.DEVNULL,
                env=self._environment,
                start_new_session=True,
            )
        return ours


def _send(orders: socket.socket, descriptors: tuple[int, ...]) -> None:
    """One byte, with which the descriptors travel."""
    socket.send_fds(orders, [b"!"], descriptors)
