"""Readiness of a replica. Backend failures are reported but do not fail readiness."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from botpool.backends.protocol import Backend, Health
from botpool.domain.errors import BotpoolError, BudgetExhausted, DatabaseUnavailable, SchemaMismatch
from botpool.engine.runtime.clock import loop_time
from botpool.engine.runtime.leases import timed
from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.database import Database
from botpool.store.migrations import check_schema

_log = structlog.get_logger()
_CHECK_TIMEOUT_S = 5.0
_HEALTH_VALID_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessState:
    """Whether the replica can serve, and the health of its backends."""

    ready: bool
    problem: str | None
    listening: bool
    backends: Mapping[str, Health]


class Readiness:
    """Checks the database and keeps the last known health of each backend."""

    def __init__(
        self,
        database: Database,
        backends: Mapping[str, Backend],
        wakeups: Wakeups,
        *,
        monotonic: Callable[[], float] = loop_time,
    ) -> None:
        self._database = database
        self._backends = backends
        self._wakeups = wakeups
        self._monotonic = monotonic
        self._health: dict[str, tuple[float, Health]] = {}
        self._checking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._stale: set[str] = set()
        self.wake = asyncio.Event()
        """Set when a backend's health check should run early."""

    def expire_health(self, name: str) -> None:
        """Check a backend again soon, because it refused a request."""
        known = self._health.get(name)
        if known is None or known[1].ok:
            self._stale.add(name)
            self.wake.set()

    async def state(self) -> ReadinessState:
        """Return the current readiness."""
        problem = await self._database_problem()
        return ReadinessState(
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
        """Return a backend's health; the backend is asked at most every half minute."""
        if name not in self._backends:
            return Health(ok=False, detail=f"backend {name} is not configured in this replica")
        # Concurrent callers share one check, so that a change of health is logged once.
        async with self._checking[name]:
            return await self._checked_health(name)

    async def _checked_health(self, name: str) -> Health:
        known = self._health.get(name)
        fresh = known is not None and self._monotonic() - known[0] < _HEALTH_VALID_S
        if known is not None and fresh and name not in self._stale:
            return known[1]
        self._stale.discard(name)
        try:
            health = await timed(
                lambda timeout_s: self._backends[name].check(timeout_s=timeout_s), _CHECK_TIMEOUT_S
            )
        except BudgetExhausted as error:
            # An exhausted budget says nothing about the backend.
            health = known[1] if known else Health(ok=True, detail=str(error))
        except BotpoolError as error:
            health = Health(ok=False, detail=str(error))
        self._health[name] = (self._monotonic(), health)
        if health != (known[1] if known else Health(ok=True)):
            log = _log.info if health.ok else _log.warning
            log("backend.health", backend=name, ok=health.ok, detail=health.detail)
        return health

    async def check_backends(self) -> None:
        """Check all backends; a change of health is logged."""
        for name in sorted(self._backends):
            await self.backend_health(name)
