"""The world around the engine: replicas that die at any statement or call, a backend with eyes.

One event loop and one pool of connections serve a whole run of the machine. Statements go one at a
time, and time stands still unless it is moved: so the same moves give the same run.
"""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from botpool.backends.protocol import StartRequest
from botpool.domain.errors import BackendRefused
from botpool.domain.ids import AssignmentId, BotId, ContainerId, DeploymentId
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.engine.replica import Identity, Replica
from botpool.store.database import Call, Database, Rows, Transaction
from tests.support.scripted_backend import ScriptedBackend

T = TypeVar("T")
_CALLS = frozenset({"ensure", "start", "deployment", "observe", "stop", "delete", "list_owned"})
_owners = itertools.count(1)


class Killed(BaseException):
    """The replica ends here: nothing of it runs on, and nothing is handed back."""


class Fate:
    """When a replica dies: at so many steps from now, before or after the step is done."""

    def __init__(self) -> None:
        self.dies_in: int | None = None
        self.dies_after = False
        self.is_dead = False

    async def meets(self, step: Callable[[], Awaitable[T]]) -> T:
        if self.is_dead:
            raise Killed
        if self.dies_in is None:
            return await step()
        self.dies_in -= 1
        if self.dies_in > 0:
            return await step()
        self.is_dead = True
        if self.dies_after:
            await step()
        raise Killed


class MortalDatabase(Database):
    """The shared pool of connections, as one replica uses it."""

    def __init__(self, shared: Database, fate: Fate, turn: asyncio.Lock) -> None:
        self._shared = shared
        self._fate = fate
        self._turn = turn

    async def fetch(self, name: str, parameters: Mapping[str, Any]) -> Rows:
        return await self._take_turn(lambda: self._shared.fetch(name, parameters))

    async def transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        return await self._take_turn(lambda: self._shared.transact(work))

    async def atomically(self, *calls: Call) -> list[Rows]:
        return await self._take_turn(lambda: self._shared.atomically(*calls))

    async def _take_turn(self, step: Callable[[], Awaitable[T]]) -> T:
        async with self._turn:
            return await self._fate.meets(step)


class MortalBackend:
    """The backend, as one replica calls it."""

    def __init__(self, pool_name: "PoolName", fate: Fate) -> None:
        self._platform = pool_name
        self._fate = fate

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._platform, name)
        if name not in _CALLS:
            return attribute

        async def called(*arguments: Any, **options: Any) -> Any:
            return await self._fate.meets(lambda: attribute(*arguments, **options))

        return called


class PoolName(ScriptedBackend):
    """A scripted pool_name that sees what no row shows: who really ran, where, beside whom."""

    def __init__(self) -> None:
        super().__init__()
        self.outrages: list[str] = []
        self.started: list[tuple[AssignmentId, BotId, ContainerId]] = []
        """Every run there was, in order: those whose agents may call, also long after their end."""
        self.haunted: set[ContainerId] = set()
        """Containers that run because the world, and not Botpool, started them."""
        self.refused: set[object] = set()
        """What it would not make (by the slot's name) or start (by the assignment)."""

    async def _called(self, call: str, about: object) -> None:
        try:
            await super()._called(call, about)
        except BackendRefused:
            self.refused.add(about)
            raise

    async def start(self, order: StartRequest, *, timeout_s: float) -> DeploymentId | None:
        before = {
            container_id: container.assignment_id
            for container_id, container in self.containers.items()
            if container.state in (ContainerState.RUNNING, ContainerState.STARTING)
            and container_id not in self.haunted
        }
        known = set(self.runs)
        deployment = await super().start(order, timeout_s=timeout_s)
        if order.assignment_id not in known:
            self._judge(order, before)
        return deployment

    def _judge(
        self, order: StartRequest, running: Mapping[ContainerId, AssignmentId | None]
    ) -> None:
        if order.container_id in running:
            self.outrages.append(f"{order.container_id} was started while it ran")
        bot = json.loads(order.environment["BOT_DATA"])["id"]
        self.started.append((order.assignment_id, bot, order.container_id))
        for container_id in running.keys() - {order.container_id}:
            other = json.loads(self.containers[container_id].environment["BOT_DATA"])["id"]
            if other == bot:
                self.outrages.append(f"bot {bot} runs in {container_id} and {order.container_id}")

    def heal(self) -> None:
        """From now on everything works, and whatever is held goes on."""
        self.state_after_start = ContainerState.RUNNING
        self.stops_work = self.deletes_at_once = True
        self.status_unreliable = False
        self._failures.clear()
        for _, go_on in self._gates.values():
            go_on.set()
        self._gates.clear()


class Living:
    """One replica, until it dies."""

    def __init__(
        self, database: Database, turn: asyncio.Lock, pool_name: PoolName, policy: Policy
    ) -> None:
        self.fate = Fate()
        identity = Identity(
            owner=f"replica-{next(_owners)}", public_url="http://127.0.0.1:1", secret=b"secret"
        )
        backend: Any = MortalBackend(pool_name, self.fate)
        self.replica = Replica(
            MortalDatabase(database, self.fate, turn), {"process": backend}, policy, identity
        )

    async def step(self) -> int:
        """Make every step that is due now, once; how many there were."""
        await self.replica.reconciler.run_due_steps()
        tasks = list(self.replica.reconciler.under_way)
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
        return len(tasks)

    def bury(self) -> None:
        self.fate.is_dead = True
        for task in self.replica.reconciler.under_way:
            task.cancel()
