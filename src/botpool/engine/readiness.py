"""Can this replica serve? Only its database decides; a backend's trouble is told, not punished."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from botpool.backends.protocol import Backend, Health
from botpool.domain.errors import BotpoolError, DatabaseUnavailable, SchemaMismatch
from botpool.engine.leases import timed
from botpool.engine.wakeups import Wakeups
from botpool.store.database import Database
from botpool.store.migrations import check_schema

_CHECK_TIMEOUT_S = 5.0
_CHECKED_FOR_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    ready: bool
    problem: str | None
    listening: bool
    backends: Mapping[str, Health]


class Readiness:
    def __init__(
        self,
        database: Database,
        backends: Mapping[str, Backend],
        wakeups: Wakeups,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._backends = backends
        self._wakeups = wakeups
        self._monotonic = monotonic
        self._health: dict[str, tuple[float, Health]] = {}

    async def state(self) -> State:
        problem = await self._database_problem()
        return State(
            ready=problem is None,
            problem=problem,
            listening=self._wakeups.listening,
            backends={name: await self.backend_health(name) for name in sorted(self._backends)},
        )

    async def _database_problem(self) -> str | None:
        try:
            async with asyncio.timeout(_CHECK_TIMEOUT_S):
                applied = await self._database.applied_migrations()
            check_schema(applied)
        except TimeoutError:
            return f"The database did not answer within {_CHECK_TIMEOUT_S:g} s."
        except (DatabaseUnavailable, SchemaMismatch) as error:
            return str(error)
        return None

    async def backend_health(self, name: str) -> Health:
        """Asked at most every ten seconds, however often readiness is."""
        known = self._health.get(name)
        if known is not None and self._monotonic() - known[0] < _CHECKED_FOR_S:
            return known[1]
        try:
            health = await timed(
                lambda timeout_s: self._backends[name].check(timeout_s=timeout_s), _CHECK_TIMEOUT_S
            )
        except BotpoolError as error:
            health = Health(ok=False, detail=str(error))
        self._health[name] = (self._monotonic(), health)
        return health
