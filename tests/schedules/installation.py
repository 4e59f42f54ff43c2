"""Starts, calls, kills and replaces the replicas of one schedule."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.policy import Policy
from botpool.domain.pools import PoolSpec
from botpool.domain.recovery import RecoveryLimits
from botpool.engine.replica import Identity, Replica
from botpool.engine.runtime.handover_push import HandoverPush, channel_of
from tests.schedules.simulated_backend import BackendConnection, SimulatedBackend
from tests.schedules.simulated_database import DatabaseFaults, Server, SimulatedDatabase
from tests.schedules.turn_scheduler import TurnScheduler, VirtualLoop

T = TypeVar("T")
AGENT_KEY = b"key"

SHORT_TIMES = Policy(
    queue_poll_s=6.0,
    deploy_timeout_s=40.0,
    deploy_grace_s=8.0,
    deploy_wait_timeout_s=60.0,
    observe_interval_s=8.0,
    recovery_interval_s=15.0,
    recovery=RecoveryLimits(deploying_timeout_s=24, heartbeat_freshness_s=12, deploy_timeout_s=40),
    max_duration_s=90.0,
    leave_grace_s=4.0,
    cleanup_interval_s=30.0,
    stray_after_s=15.0,
    stray_share=1.0,
    heartbeat_interval_ms=3_000,
    call_timeout_s=2.0,
    lease_s=6.0,
    stop_timeout_s=6.0,
    describe_interval_s=3600.0,
    step_backoff_s=0.5,
    step_backoff_max_s=3.0,
)
"""The default intervals and limits, shortened in proportion to a schedule of a minute."""

_current_replica: "contextvars.ContextVar[SimulatedReplica | None]" = contextvars.ContextVar(
    "replica", default=None
)


class Unreachable(Exception):
    """The replica crashed before it responded; the request may have been executed."""


class SimulatedReplica:
    """One replica, and every task that runs in it."""

    def __init__(
        self, replica: Replica, database: SimulatedDatabase, backend: BackendConnection
    ) -> None:
        self.replica = replica
        self.database = database
        self.backend = backend
        self.crashed = False
        self.tasks: set[asyncio.Task[Any]] = set()

    def run(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run the work as a task of this replica, which a crash cancels."""
        context = contextvars.copy_context()
        context.run(_current_replica.set, self)
        return asyncio.get_running_loop().create_task(work, context=context)

    def crash(self) -> None:
        self.crashed = True
        self.database.crash()
        self.backend.crash()
        for task in list(self.tasks):
            task.cancel()


class _NumberedTask(asyncio.Task[Any]):
    """A task with a numbered hash, so that sets do not order tasks by memory address."""

    def __init__(self, work: Any, *, loop: VirtualLoop, **options: Any) -> None:
        self._number = next(loop.numbers)
        super().__init__(work, loop=loop, **options)

    def __hash__(self) -> int:
        return self._number


def _create_task(loop: VirtualLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
    """Create a task that belongs to the replica whose work creates it."""
    task = _NumberedTask(work, loop=loop, **more)
    context = more.get("context")
    owner = context.get(_current_replica) if context else _current_replica.get()
    if owner is not None:
        owner.tasks.add(task)
        task.add_done_callback(owner.tasks.discard)
    return task


def _ignore_result(task: asyncio.Task[Any]) -> None:
    """Mark the exception as retrieved, because the caller may have ended."""
    if not task.cancelled():
        task.exception()


class Installation:
    def __init__(
        self,
        server: Server,
        scheduler: TurnScheduler,
        simulated_backend: SimulatedBackend,
        faults: DatabaseFaults,
        pools: Sequence[PoolSpec],
        concurrent_starts: int | None,
    ) -> None:
        self.pools = pools
        self.replicas: list[SimulatedReplica] = []
        self._server = server
        self._scheduler = scheduler
        self._backend = simulated_backend
        self._faults = faults
        self._concurrent_starts = concurrent_starts
        self._replicas_started = 0
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.set_task_factory(_create_task)

    async def start_replica(self) -> None:
        self._replicas_started += 1
        owner = f"r{self._replicas_started}"
        database = SimulatedDatabase(self._server, self._scheduler, self._faults, owner)
        backend = BackendConnection(self._backend, owner, self._concurrent_starts)
        identity = Identity(owner=owner, public_url="http://botpool", agent_keys=(AGENT_KEY,))
        replica = Replica(database, {"process": backend}, SHORT_TIMES, identity)
        # The number of dead rows depends on earlier schedules in the same database.
        replica._loops = tuple(loop for loop in replica._loops if loop.name != "vacuum")
        target = SimulatedReplica(replica, database, backend)
        # Notifications arrive, although some get lost: the replica reads as if it listened.
        replica.wakeups.listening = True
        database.notify = lambda: self._notify_others(target)
        database.notify_owner = self._notify_owner
        await target.run(self._configure(replica))
        self.replicas.append(target)
        starting = target.run(replica.start())
        try:
            await starting
        except asyncio.CancelledError:
            if not (target.crashed and starting.done()):
                raise  # Otherwise the replica was killed during its start.

    async def kill(self, target: SimulatedReplica) -> None:
        """Kill a replica at once; another one starts some time later."""
        if target not in self.replicas:
            return
        self.replicas.remove(target)
        target.crash()
        await asyncio.sleep(self._scheduler.rng.uniform(0.0, 8.0))
        await self.start_replica()

    async def stop(self, target: SimulatedReplica) -> None:
        """Start another replica, then stop this one as SIGTERM does: a rolling restart."""
        await self.start_replica()
        if target in self.replicas:
            self.replicas.remove(target)
            try:
                await target.run(target.replica.stop(within_s=3.0))
            finally:
                target.crash()

    async def send(
        self, work: Callable[[Replica], Awaitable[T]], *, ends_with_caller: bool = False
    ) -> T:
        """Send a request to a random replica, which completes it even for a cancelled caller.

        `ends_with_caller`: the replica notices that the caller has gone, and ends the request.
        """
        await self._scheduler.turn("request")
        if not self.replicas:
            raise Unreachable
        target = self._scheduler.rng.choice(self.replicas)

        async def serve() -> T:
            return await work(target.replica)

        task = target.run(serve())
        task.add_done_callback(_ignore_result)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if target.crashed and task.done():
                raise Unreachable from None
            if ends_with_caller:
                task.cancel()
            raise

    async def _configure(self, replica: Replica) -> None:
        """Configure the pools; retry until the database is available."""
        while True:
            try:
                return await replica.pools.configure(self.pools)
            except DatabaseUnavailable:
                await asyncio.sleep(0.5)

    def _notify_others(self, sender: SimulatedReplica) -> None:
        for target in self.replicas:
            if target is not sender and self._scheduler.rng.random() < 0.8:
                target.replica.wakeups.slots.set()

    def _notify_owner(self, channel: str, slots: str) -> None:
        for target in self.replicas:
            if channel_of(target.replica.identity.owner) != channel:
                continue
            if self._scheduler.rng.random() < 0.8:

                async def receive(
                    push: HandoverPush = target.replica.wakeups.handover_push,
                ) -> None:
                    push.receive(slots)

                target.run(receive())
