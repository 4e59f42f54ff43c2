"""Ports for servers that a test starts as processes of their own."""

import random
import socket
from contextlib import suppress

_PORTS = range(10_000, 30_000)
"""Below the ports that the kernel gives to outgoing connections, which would take one again."""


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free now, for a server that starts soon."""
    for port in random.SystemRandom().sample(_PORTS, 100):
        with suppress(OSError), socket.create_server((host, port)):
            return port
    raise AssertionError(f"none of 100 ports of {host} is free")
