"""The replicas of one schedule: started, asked, killed in the middle of anything, replaced."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.policy import Policy
from botpool.domain.records import PoolSpec
from botpool.domain.recovery import RecoveryLimits
from botpool.engine.replica import Identity, Replica
from tests.schedules.conductor import Conductor, VirtualLoop
from tests.schedules.simulated_database import Server, SimulatedDatabase, Trouble
from tests.schedules.simulated_platform import Line, PoolName

T = TypeVar("T")
SECRET = b"secret"

BRISK = Policy(
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
    stop_patience_s=6.0,
    describe_interval_s=3600.0,
    step_backoff_s=0.5,
    step_backoff_max_s=3.0,
)
"""The usual times, shortened in proportion: a schedule is less than a minute of them."""

_home: "contextvars.ContextVar[Living | None]" = contextvars.ContextVar("home", default=None)


class Unreachable(Exception):
    """The replica died before it answered; what was asked may have been done."""


class Living:
    """One replica, and every task that runs in it."""

    def __init__(self, replica: Replica, database: SimulatedDatabase, line: Line) -> None:
        self.replica = replica
        self.database = database
        self.line = line
        self.dead = False
        self.tasks: set[asyncio.Task[Any]] = set()

    def run(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Do it as this replica: it ends when the replica does."""
        context = contextvars.copy_context()
        context.run(_home.set, self)
        return asyncio.get_running_loop().create_task(work, context=context)

    def die(self) -> None:
        self.dead = True
        self.database.die()
        self.line.die()
        for task in list(self.tasks):
            task.cancel()


class _NumberedTask(asyncio.Task[Any]):
    """Sets of tasks keep an order that the seed decides, and not the places they have in memory."""

    def __init__(self, work: Any, *, loop: VirtualLoop, **options: Any) -> None:
        self._number = next(loop.numbers)
        super().__init__(work, loop=loop, **options)

    def __hash__(self) -> int:
        return self._number


def _in_its_home(loop: VirtualLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
    """A task belongs to the replica whose work made it."""
    task = _NumberedTask(work, loop=loop, **more)
    context = more.get("context")
    home = context.get(_home) if context else _home.get()
    if home is not None:
        home.tasks.add(task)
        task.add_done_callback(home.tasks.discard)
    return task


def _answered(task: asyncio.Task[Any]) -> None:
    """Whoever asked may be gone: then a failure is nobody's."""
    if not task.cancelled():
        task.exception()


class Installation:
    def __init__(
        self,
        server: Server,
        conductor: Conductor,
        pool_name: PoolName,
        trouble: Trouble,
        pools: Sequence[PoolSpec],
        concurrent_starts: int | None,
    ) -> None:
        self.pools = pools
        self.living: list[Living] = []
        self._server = server
        self._conductor = conductor
        self._platform = pool_name
        self._trouble = trouble
        self._concurrent_starts = concurrent_starts
        self._numbered = 0
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.set_task_factory(_in_its_home)

    async def start_replica(self) -> None:
        self._numbered += 1
        owner = f"r{self._numbered}"
        database = SimulatedDatabase(self._server, self._conductor, self._trouble, owner)
        line = Line(self._platform, owner, self._concurrent_starts)
        identity = Identity(owner=owner, public_url="http://botpool", secret=SECRET)
        replica = Replica(database, {"process": line}, BRISK, identity)
        # How many rows are dead is a matter of what else ran in this database, and no schedule's.
        replica._loops = tuple(loop for loop in replica._loops if loop.name != "vacuum")
        living = Living(replica, database, line)
        database.notify = lambda: self._tell_others(living)
        await living.run(self._configure(replica))
        self.living.append(living)
        await living.run(replica.start())

    async def kill(self, living: Living) -> None:
        """At once, whatever it was doing. Another one comes some time later."""
        if living not in self.living:
            return
        self.living.remove(living)
        living.die()
        await asyncio.sleep(self._conductor.chance.uniform(0.0, 8.0))
        await self.start_replica()

    async def stop(self, living: Living) -> None:
        """As SIGTERM does; another one is there before, as in a rolling restart."""
        await self.start_replica()
        if living in self.living:
            self.living.remove(living)
            try:
                await living.run(living.replica.stop(within_s=3.0))
            finally:
                living.die()

    async def ask(self, work: Callable[[Replica], Awaitable[T]]) -> T:
        """Send a request to some replica. It is served to its end, also if nobody waits."""
        await self._conductor.turn("request")
        if not self.living:
            raise Unreachable
        living = self._conductor.chance.choice(self.living)

        async def serve() -> T:
            return await work(living.replica)

        task = living.run(serve())
        task.add_done_callback(_answered)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if living.dead and task.done():
                raise Unreachable from None
            raise

    async def _configure(self, replica: Replica) -> None:
        """As a service manager does: again, until the database is there."""
        while True:
            try:
                return await replica.pools.configure(self.pools)
            except DatabaseUnavailable:
                await asyncio.sleep(0.5)

    def _tell_others(self, speaker: Living) -> None:
        for living in self.living:
            if living is not speaker and self._conductor.chance.random() < 0.8:
                living.replica.wakeups.slots.set()
