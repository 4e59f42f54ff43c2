"""One running interpreter that forks the launchers of this control plane.

The public way to start a launcher is `subprocess`, with an interpreter for each launcher. The fork
server replaces it because it shortens the hand-over of a slot, from the end of a bot to the start
of its successor, by far more than a fifth (docs/decisions/0028-no-overridden-internals.md).
`multiprocessing` has a fork server too, but waits at exit for the processes that it started, and
launchers must outlive the control plane.

The fork server supervises nothing: launchers have their own sessions and outlive it. It ends when
the control plane closes its end of the socket or dies. When it was killed, the next start opens
another one; a start that it had accepted gets no answer and is repeated.
"""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from botpool.backends.process import launcher

_CLOSE_TIMEOUT_S = 5


class ForkServer:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self, job: int) -> int:
        """Start a launcher with the open job file `job`; return the pipe of its answer."""
        answer_read, answer_write = os.pipe()
        try:
            self._send(job, answer_write)
        except BaseException:
            os.close(answer_read)
            raise
        finally:
            os.close(answer_write)
        return answer_read

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            try:
                self._process.wait(_CLOSE_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()  # It was suspended; its launchers do not depend on it.
                self._process.wait()
        self._socket = self._process = None

    def _send(self, *descriptors: int) -> None:
        if self._socket is not None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                _send(self._socket, descriptors)
                return
            self.close()
        self._socket = self._open()
        _send(self._socket, descriptors)

    def _open(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        # The event loop's thread sends: a suspended fork server must not block it.
        ours.setblocking(False)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(launcher.__file__))],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env=self._environment,
                start_new_session=True,
            )
        return ours


def _send(connection: socket.socket, descriptors: tuple[int, ...]) -> None:
    """Send one byte, which carries the descriptors."""
    socket.send_fds(connection, [b"!"], descriptors)
