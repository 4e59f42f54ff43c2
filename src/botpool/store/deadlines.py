"""A deadline for what a connection does, enforced by this process and not by the server.

The network may drop packets without a word, and a proxy may stall: then no answer and no error ever
arrive. At the deadline the connection's socket is shut down. Whatever waits for it fails at once,
also a statement that is already being cancelled.
"""

import asyncio
import os
import socket
from contextlib import suppress
from typing import Any, Self

import psycopg

CONNECT_TIMEOUT_S = 5

SOCKET_OPTIONS: dict[str, Any] = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    # Keep idle connections alive through firewalls, and detect a dead server before a statement
    # needs the connection.
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    # The longest time, in milliseconds, that sent bytes may stay without an acknowledgement.
    "tcp_user_timeout": 10_000,
}
"""Parameters of libpq for every connection; servers on a Unix socket ignore most of them."""


class Deadline:
    """Shuts a connection down if the block takes longer than the limit."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], limit_s: float) -> None:
        self._connection = connection
        self.limit_s = limit_s
        self.passed = False
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._timer = asyncio.get_running_loop().call_later(self.limit_s, self._shut_down)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._timer is not None
        self._timer.cancel()

    def _shut_down(self) -> None:
        self.passed = True
        # The connection may be closed or lost already.
        with (
            suppress(OSError, psycopg.OperationalError),
            socket.socket(fileno=os.dup(self._connection.fileno())) as shared,
        ):
            shared.shutdown(socket.SHUT_RDWR)
