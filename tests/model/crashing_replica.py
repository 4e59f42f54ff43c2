"""Replicas that crash before or after any statement or backend call.

One event loop and one connection pool serve a whole run of the state machine. Statements run one at
a time, and only the test advances the clock, so the same operations give the same run.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from botpool.domain.policy import Policy
from botpool.engine.replica import Identity, Replica
from botpool.store.database import Database, Transaction
from botpool.store.query import Statement
from tests.model.recording_backend import RecordingBackend

T = TypeVar("T")
_CALLS = frozenset({"ensure", "start", "deployment", "observe", "stop", "delete", "list_owned"})
_numbers = itertools.count(1)


class ReplicaCrashed(BaseException):
    """The replica ends here: none of its work continues, and it returns no lease."""


class CrashPlan:
    """Crashes a replica at its n-th statement or call from now, before or after that step."""

    def __init__(self) -> None:
        self.crashes_in: int | None = None
        self.crashes_after_step = False
        self.has_crashed = False

    async def run_step(self, step: Callable[[], Awaitable[T]]) -> T:
        if self.has_crashed:
            raise ReplicaCrashed
        if self.crashes_in is None:
            return await step()
        self.crashes_in -= 1
        if self.crashes_in > 0:
            return await step()
        self.has_crashed = True
        if self.crashes_after_step:
            await step()
        raise ReplicaCrashed


class CrashingDatabase(Database):
    """The shared connection pool, as one replica uses it."""

    def __init__(self, shared: Database, crash_plan: CrashPlan, turn: asyncio.Lock) -> None:
        self._shared = shared
        self._crash_plan = crash_plan
        self._turn = turn

    async def transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        return await self._take_turn(lambda: self._shared.transact(work))

    async def commit(self, statements: Sequence[Statement[Any]]) -> None:
        await self._take_turn(lambda: self._shared.commit(statements))

    async def _take_turn(self, step: Callable[[], Awaitable[T]]) -> T:
        async with self._turn:
            return await self._crash_plan.run_step(step)


class CrashingBackend:
    """The backend, as one replica calls it."""

    def __init__(self, backend: RecordingBackend, crash_plan: CrashPlan) -> None:
        self._backend = backend
        self._crash_plan = crash_plan

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._backend, name)
        if name not in _CALLS:
            return attribute

        async def called(*arguments: Any, **options: Any) -> Any:
            return await self._crash_plan.run_step(lambda: attribute(*arguments, **options))

        return called


class ModelReplica:
    """One replica and its crash plan."""

    def __init__(
        self, database: Database, turn: asyncio.Lock, backend: RecordingBackend, policy: Policy
    ) -> None:
        self.crash_plan = CrashPlan()
        identity = Identity(
            owner=f"replica-{next(_numbers)}", public_url="http://127.0.0.1:1", agent_keys=(b"key",)
        )
        crashing_backend: Any = CrashingBackend(backend, self.crash_plan)
        self.replica = Replica(
            CrashingDatabase(database, self.crash_plan, turn),
            {"process": crashing_backend},
            policy,
            identity,
        )

    async def step(self) -> int:
        """Run every step that is due now, once, and return their number."""
        await self.replica.reconciler.run_due_steps()
        tasks = list(self.replica.reconciler.under_way)
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
        return len(tasks)

    def discard(self) -> None:
        """Cancel all work of the replica, as a crash does."""
        self.crash_plan.has_crashed = True
        for task in self.replica.reconciler.under_way:
            task.cancel()
