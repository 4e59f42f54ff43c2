"""Readiness of a replica. Backend failures are reported but do not fail readiness.

A replica is ready if the database answers in time, has a schema that this version knows and accepts
writes, if no background loop is late, and if the replica is not about to stop. The answer never
takes longer than `_CHECK_TIMEOUT_S`: a check that has not ended by then continues, and the next
answer uses its result.
"""

import asyncio
from asyncio import Task
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import structlog

from botpool.backends.protocol import Backend, Health
from botpool.domain.errors import (
    BotpoolError,
    BudgetExhausted,
    DatabaseProblem,
    DatabaseUnavailable,
    HealthCheckFailed,
    SchemaMismatch,
)
from botpool.engine.runtime.clock import loop_time
from botpool.engine.runtime.leases import timed
from botpool.engine.runtime.loop import Loop
from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.database import Database
from botpool.store.liveness import read_server_role
from botpool.store.migrations import check_schema
from botpool.store.pacing import list_egresses

_log = structlog.get_logger()
_CHECK_TIMEOUT_S = 5.0
_HEALTH_VALID_S = 30.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessState:
    """Whether the replica can serve, and the health of its backends."""

    ready: bool
    problem: str | None
    is_database_problem: bool
    """Whether the database is at fault, rather than this replica."""
    listening: bool
    backends: Mapping[str, Health]
    paused_egresses: Mapping[str, datetime]
    """Egresses that start no bots, and when they start one again."""


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
        self._checks: dict[str, Task[Any]] = {}
        self._loops: Sequence[Loop] = ()
        self._paused_egresses: Mapping[str, datetime] = {}
        self._refused_writes: Callable[[], str | None] = lambda: None
        self._is_draining = False
        self.wake = asyncio.Event()
        """Set when a backend's health check should run early."""

    def expire_health(self, name: str) -> None:
        """Check a backend again soon, because it refused a request."""
        known = self._health.get(name)
        if known is None or known[1].ok:
            self._stale.add(name)
            self.wake.set()

    def watch(self, loops: Sequence[Loop], *, refused_writes: Callable[[], str | None]) -> None:
        """Make readiness depend on loops, and on the reason why the database refuses writes."""
        self._loops = loops
        self._refused_writes = refused_writes

    def drain(self) -> None:
        """Report from now on that this replica is not ready, because it is about to stop."""
        _log.info("replica.draining")
        self._is_draining = True

    async def state(self) -> ReadinessState:
        """Return the current readiness."""
        database = self._start_check("database", self._database_problem)
        health = {
            name: self._start_check(name, partial(self.backend_health, name))
            for name in sorted(self._backends)
        }
        await asyncio.wait([database, *health.values()], timeout=_CHECK_TIMEOUT_S)
        problem = (
            database.result()
            if database.done()
            else f"The database did not answer within {_CHECK_TIMEOUT_S:g} s."
        )
        problem = problem or self._refused_writes()
        of_database = problem is not None
        problem = problem or self._late_loop() or self._draining()
        return ReadinessState(
            ready=problem is None,
            problem=problem,
            is_database_problem=of_database,
            listening=self._wakeups.listening,
            paused_egresses=self._paused_egresses,
            backends={
                name: check.result() if check.done() else self._unanswered(name)
                for name, check in health.items()
            },
        )

    def _start_check(self, name: str, check: Callable[[], Coroutine[Any, Any, T]]) -> Task[T]:
        """Start a check, or return the one that still runs."""
        running = self._checks.get(name)
        if running is None or running.done():
            running = self._checks[name] = asyncio.create_task(check(), name=f"check {name}")
        return running

    def _unanswered(self, name: str) -> Health:
        known = self._health.get(name)
        return known[1] if known else Health(ok=False, detail="the backend has not answered yet")

    def _draining(self) -> str | None:
        return "This replica is about to stop." if self._is_draining else None

    def _late_loop(self) -> str | None:
        for loop in self._loops:
            if (late_s := loop.late_s) is not None:
                return f"The loop {loop.name} last finished a round {late_s:.0f} s ago."
        return None

    async def _database_problem(self) -> str | None:
        try:
            check_schema(await self._database.applied_migrations())
            role = await read_server_role(self._database)
            self._paused_egresses = {
                each.egress: each.probe_at
                for each in await list_egresses(self._database)
                if each.probe_at is not None
            }
        except (DatabaseUnavailable, SchemaMismatch) as error:
            return str(error)
        if role.is_standby or role.is_read_only:
            detail = "it is a standby" if role.is_standby else "transactions are read-only"
            return str(DatabaseUnavailable(detail, DatabaseProblem.READ_ONLY))
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
        except HealthCheckFailed as error:
            health = Health(ok=False, detail=str(error), address=error.address)
        except BotpoolError as error:
            health = Health(ok=False, detail=str(error))
        self._health[name] = (self._monotonic(), health)
        if health != (known[1] if known else Health(ok=True)):
            log = _log.info if health.ok else _log.warning
            address = {"address": health.address} if health.address else {}
            log("backend.health", backend=name, ok=health.ok, detail=health.detail, **address)
        return health

    def known_health(self, name: str) -> Health | None:
        """Return the health that the last check found, without asking the backend."""
        known = self._health.get(name)
        return known[1] if known else None

    async def check_backends(self) -> None:
        """Check all backends; a change of health is logged."""
        for name in sorted(self._backends):
            await self.backend_health(name)
