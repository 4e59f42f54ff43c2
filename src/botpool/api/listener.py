"""The listening socket of the HTTP server, bound before the server is imported."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from botpool.domain.errors import SettingError


@contextmanager
def listening_socket(host: str, port: int, *, backlog: int = 1024) -> Iterator[socket.socket]:
    """Bind and listen before anything else starts, so that a used port stops the start."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            # Listen at once: of two starts at the same moment, only one may continue.
            listener.listen(backlog)
        except OSError as error:
            name = "server.host" if isinstance(error, socket.gaierror) else "server.port"
            problem = f"{host}:{port} cannot be used: {(error.strerror or str(error)).lower()}"
            raise SettingError(name, f"{problem}; choose another with --host or --port") from error
        yield listener
