"""The connections of the HTTP server: how many it holds, and which one makes room for another.

A connection waits while its client has not sent a whole request: after the accept, within a head or
a body, or between two requests. When there is no room, the connection that has waited longest is
closed, callers without a key first. A connection with a request in progress is never closed to make
room, so `api/active_requests.py` limits the requests in progress.
"""

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fastapi import Request

_GRACE_S = 1.0
"""A client may take this long to send its request before the limit per address closes its
connection: many agents behind one address can connect at the same moment."""


class CallerKind(Enum):
    """Who uses a connection, in the order in which waiting connections make room."""

    UNKNOWN = "unknown"
    USER = "user"
    AGENT = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits for the connections and requests of one server; `limits.*` describes each."""

    connections: int = 4096
    for_agents: int = 2048
    per_address: int = 512
    per_agent: int = 32
    first_byte_s: float = 10.0
    head_s: float = 10.0
    body_s: float = 60.0
    response_s: float = 60.0
    keep_alive_s: float = 75.0

    def lowered_to(self, connections: int) -> "ConnectionLimits":
        """Return these limits with fewer connections, and agents' room in the same proportion."""
        if connections >= self.connections:
            return self
        for_agents = self.for_agents * connections // self.connections
        return replace(self, connections=connections, for_agents=for_agents)


class Connection(Protocol):
    """A connection as the table needs it."""

    caller: CallerKind
    source: str | None
    """The group of addresses that the limit per address counts; None for a trusted proxy."""

    def abort(self) -> None: ...


class ConnectionTable:
    """All connections of a server. Methods that name a connection may be called repeatedly."""

    def __init__(
        self,
        limits: ConnectionLimits | None = None,
        *,
        trusted_proxies: Sequence[str] = (),
        on_closed: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_closed` is called with the reason when a limit or deadline ends a connection."""
        self.limits = limits or ConnectionLimits()
        self.on_closed = on_closed
        self.turned_away = 0
        """Connections closed before their clients had time to send a request."""
        self._trusts_all = "*" in trusted_proxies
        self._trusted = [
            ipaddress.ip_network(each, strict=False) for each in trusted_proxies if each != "*"
        ]
        self._open: set[Connection] = set()
        # Dictionaries keep their order: the first has waited longest.
        self._waiting: dict[CallerKind, dict[Connection, float]] = {each: {} for each in CallerKind}
        self._waiting_by_source: dict[str, dict[Connection, float]] = {}

    def count(self) -> int:
        return len(self._open)

    def is_trusted_proxy(self, host: str) -> bool:
        if self._trusts_all or not self._trusted:
            return self._trusts_all
        address = ipaddress.ip_address(host)
        return any(address in network for network in self._trusted)

    def admit(self, connection: Connection, now: float) -> bool:
        """Add a new connection, in place of a waiting one if necessary; False if all are busy."""
        if len(self._open) >= self.limits.connections and not self._make_room(now):
            self.turned_away += 1
            self.on_closed("full")
            return False
        if connection.source is not None:
            self._limit_source(connection.source, now)
        self._open.add(connection)
        self.wait(connection, now)
        return True

    def remove(self, connection: Connection) -> None:
        self._open.discard(connection)
        self.work(connection)

    def wait(self, connection: Connection, now: float) -> None:
        """Note that the connection waits for its client, if it did not already."""
        if connection not in self._open:
            return
        since = self._waiting[connection.caller].setdefault(connection, now)
        if connection.caller is CallerKind.UNKNOWN and connection.source is not None:
            self._waiting_by_source.setdefault(connection.source, {})[connection] = since

    def work(self, connection: Connection) -> None:
        """Note that the connection has a whole request, or has ended."""
        self._waiting[connection.caller].pop(connection, None)
        if connection.source is not None:
            there = self._waiting_by_source.get(connection.source)
            if there is not None and there.pop(connection, None) is not None and not there:
                del self._waiting_by_source[connection.source]

    def identify(self, connection: Connection, caller: CallerKind, now: float) -> None:
        """Note who sends the current request of the connection."""
        waits = connection in self._waiting[connection.caller]
        if waits:
            self.work(connection)
        connection.caller = caller
        if waits:
            self.wait(connection, now)

    def _make_room(self, now: float) -> bool:
        for waiting in self._waiting.values():
            for connection, since in waiting.items():
                if now - since < _GRACE_S:
                    self.turned_away += 1
                self._close(connection, "room")
                return True
        return False

    def _limit_source(self, source: str, now: float) -> None:
        there = self._waiting_by_source.get(source)
        while there and len(there) >= self.limits.per_address:
            connection, since = next(iter(there.items()))
            if now - since < _GRACE_S:
                return
            self._close(connection, "address")

    def _close(self, connection: Connection, reason: str) -> None:
        self.on_closed(reason)
        self.remove(connection)
        connection.abort()


def source_of(host: str) -> str:
    """Return the addresses that count as one: an IPv4 address, or an IPv6 network of 64 bits."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host  # A proxy may forward anything as the address of its client.
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


def identify_connection(request: "Request", caller: CallerKind) -> None:
    """Tell the connection who sends this request. In tests without a server there is none."""
    identify = getattr(request.state, "identify_connection", None)
    if identify is not None:
        identify(caller)
