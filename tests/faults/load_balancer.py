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

    def __init__(self, servers: Sequence[Server], host: str) -> None:
        self._servers = servers
        self._host = host
        self._ready: set[int] = set()
        self._turns = count()
        self.port = 0

    @classmethod
    @asynccontextmanager
    async def running(
        cls, servers: Sequence[Server], *, host: str = "127.0.0.1"
    ) -> AsyncIterator["LoadBalancer"]:
        """`servers` may grow while the load balancer runs."""
        balancer = cls(servers, host)
        checks = asyncio.create_task(balancer._check_all())
        async with TcpProxy.running(balancer._next, host=host) as proxy:
            balancer.port = proxy.port
            yield balancer
        checks.cancel()
        await asyncio.gather(checks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self.port}"

    def _next(self) -> Address:
        """Choose a ready replica; without one, any: its response says what is wrong."""
        servers = [each for each in self._servers if each.port in self._ready]
        servers = servers or [*self._servers]
        chosen = servers[next(self._turns) % len(servers)]
        return chosen.host, chosen.port

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
