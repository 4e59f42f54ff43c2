"""A load balancer in the test process: sends each connection to a replica that is ready."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count

import httpx

from tests.support.server import Server
from tests.support.tcp_proxy import Address, TcpProxy

_CHECK_INTERVAL_S = 0.5
_CHECK_TIMEOUT_S = 10.0


class LoadBalancer:
    """Checks `/readyz` as a load balancer does, and distributes connections in turn."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = servers
        self._ready: set[int] = set()
        self._turns = count()
        self.port = 0

    @classmethod
    @asynccontextmanager
    async def running(cls, servers: Sequence[Server]) -> AsyncIterator["LoadBalancer"]:
        """`servers` may grow while the load balancer runs."""
        balancer = cls(servers)
        checks = asyncio.create_task(balancer._check_all())
        async with TcpProxy.running(balancer._next) as proxy:
            balancer.port = proxy.port
            yield balancer
        checks.cancel()
        await asyncio.gather(checks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _next(self) -> Address:
        """Choose a ready replica; without one, any: its response says what is wrong."""
        ports = [each.port for each in self._servers if each.port in self._ready]
        ports = ports or [each.port for each in self._servers]
        return "127.0.0.1", ports[next(self._turns) % len(ports)]

    async def _check_all(self) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=_CHECK_TIMEOUT_S) as user:
            while True:
                await asyncio.gather(*(self._check(user, each) for each in [*self._servers]))
                await asyncio.sleep(_CHECK_INTERVAL_S)

    async def _check(self, user: httpx.AsyncClient, server: Server) -> None:
        if await _is_ready(user, server):
            self._ready.add(server.port)
        else:
            self._ready.discard(server.port)


async def _is_ready(user: httpx.AsyncClient, server: Server) -> bool:
    with suppress(httpx.HTTPError):
        return (await user.get(f"{server.url}/readyz")).status_code == 200
    return False
