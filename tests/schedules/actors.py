"""The actors of a schedule beside the replicas: agents, users, operators and accidents."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import TypeVar

from botpool.domain.errors import (
    BotpoolError,
    DatabaseUnavailable,
    NoFreeSlot,
    NotFound,
    PoolDrained,
    SlotInUse,
)
from botpool.domain.ids import AssignmentId, BotId, SlotId
from botpool.domain.observation import ContainerState
from botpool.domain.states import BotStatus
from botpool.engine.replica import Replica
from tests.schedules.end_causes import EndCauses
from tests.schedules.installation import SHORT_TIMES, Installation, Unreachable
from tests.schedules.simulated_backend import Run, SimulatedBackend
from tests.schedules.standby_agent import StandbyAgent
from tests.schedules.turn_scheduler import TurnScheduler
from tests.support.fences import ANY_ASSIGNMENT
from tests.support.replicas import bot_request, key

T = TypeVar("T")
HEARTBEAT_S = 1.5
MAX_TRIES = 60
_AGENT_BEHAVIOURS = (*["good"] * 8, "crashes", "silent", "refused", "mute")


class Actors:
    """Everything random that happens to the installation, and its record for the checks."""

    def __init__(self, scheduler: TurnScheduler) -> None:
        self.rng = scheduler.rng
        self.scheduler = scheduler
        self.accepted: list[BotId] = []
        self.joined: dict[BotId, list[AssignmentId]] = defaultdict(list)
        self.causes = EndCauses(SHORT_TIMES)
        self.violations: list[str] = []
        self.installation: Installation
        self.backend: SimulatedBackend
        self.posts_within_s = 12.0
        self._boots = 0

    # Agents

    async def run_agent(self, run: Run) -> None:
        """Act as the agent of a run, from the start of its container to its end."""
        await asyncio.sleep(self.rng.uniform(0.0, 0.5))
        behaviour = self.rng.choice(_AGENT_BEHAVIOURS)
        if behaviour == "mute":
            await asyncio.sleep(3600)
        self._boots += 1
        boot_id = f"boot-{self._boots}"
        if run.slot_id is not None:
            assigned = await self._standby_agent(run, boot_id).wait_for_bot()
        else:
            assigned = await self._identify(run, boot_id)
        if assigned is None and self.rng.random() < 0.3:
            await asyncio.sleep(3600)  # Agents may wait for SIGTERM instead of an exit.
        if assigned is not None:
            me, bot = assigned
            self._record_join(me, bot)
            await self._attend_call(me, bot, behaviour)
        self.backend.exit(run.container_id, ContainerState.EXITED)

    def _standby_agent(self, run: Run, boot_id: str) -> StandbyAgent:
        return StandbyAgent(
            scheduler=self.scheduler,
            installation=self.installation,
            retry=self._retry,
            violations=self.violations,
            run=run,
            boot_id=boot_id,
        )

    async def _identify(self, run: Run, boot_id: str) -> tuple[AssignmentId, BotId] | None:
        me, bot = run.assignment_id, run.bot_id
        assert bot is not None

        async def identify(replica: Replica) -> bool:
            self.causes.called.add(bot)
            _, released = await replica.agents.identify(me, run.container_id, boot_id)
            return released

        return None if await self._retry(identify) else (me, bot)

    async def _attend_call(self, me: AssignmentId, bot: BotId, behaviour: str) -> None:
        ends_at = self.scheduler.now + self.rng.uniform(0.5, 4.0)
        await self._retry(lambda r: r.agents.report(me, bot, BotStatus.IN_CALL, None))
        while self.scheduler.now < ends_at:
            sent_at = self.scheduler.now
            instructions = await self._retry(lambda r: r.agents.heartbeat(me, bot))
            if instructions.should_exit:
                return
            self.causes.heartbeat_at[bot] = sent_at
            if instructions.should_leave:
                break
            if behaviour == "crashes":
                return
            if behaviour == "silent":
                await asyncio.sleep(3600)
            await asyncio.sleep(HEARTBEAT_S)
        ending = BotStatus.FAILED if behaviour == "refused" else BotStatus.DONE
        self.causes.reported[bot].add(ending)
        for _ in range(self.rng.choice((1, 1, 2))):
            await self._retry(lambda r: r.agents.report(me, bot, ending, None))

    def _record_join(self, me: AssignmentId, bot: BotId) -> None:
        self.joined[bot].append(me)
        if len(self.joined[bot]) > 1:
            self.violations.append(f"{self.scheduler.now:.3f} bot {bot} joined twice")

    # Users

    async def post_bot(self, number: int) -> None:
        """Request a bot as a client that retries; some clients send the request twice at once."""
        await asyncio.sleep(self.rng.uniform(0.0, self.posts_within_s))
        request = bot_request(
            priority=self.rng.choice((50, 100, 100, 100)),
            queue_timeout_ms=self.rng.choice((0, 3_000, 60_000, 60_000, 60_000, 60_000)),
            correlation_id=f"c{number}",
        )
        key_ = key(f"k{number}")
        posts = [
            self._retry(lambda r: r.admission.admit(request, key_))
            for _ in range(self.rng.choice((1, 1, 2)))
        ]
        responses = await asyncio.gather(*posts, return_exceptions=True)
        admitted = [response for response in responses if not isinstance(response, BaseException)]
        for response in responses:
            if isinstance(response, BaseException) and not isinstance(
                response, NoFreeSlot | PoolDrained
            ):
                raise response
        if len({response.bot.id for response in admitted}) > 1:
            self.violations.append(f"request {number} was admitted twice")
        if admitted:
            self.accepted.append(admitted[0].bot.id)
            if self.rng.random() < 0.25:
                await asyncio.sleep(self.rng.uniform(0.0, self.rng.choice((0.5, 3.0, 12.0))))
                self.causes.stop_requested.add(admitted[0].bot.id)
                await self._retry(lambda r: r.bot_stopper.stop(admitted[0].bot.id))

    # Operators

    async def run_operator_command(self) -> None:
        await asyncio.sleep(self.rng.uniform(2.0, 20.0))
        page = await self._retry(
            lambda r: r.queries.slots(pool_name=None, status=None, after=None, limit=100)
        )
        slots = page.items
        pool_name = self.installation.pools[0].pool_name
        command = self.rng.choice(("release", "recover", "cordon", "delete", "drain", "pass"))
        slot = SlotId(self.rng.choice(slots).id) if slots else None
        try:
            if command == "drain":
                await self._retry(lambda r: r.pools.drain(pool_name, drained=True, reason="test"))
                await asyncio.sleep(self.rng.uniform(0.0, 10.0))
                await self._retry(lambda r: r.pools.drain(pool_name, drained=False, reason="test"))
            elif command == "pass":
                await self._retry(lambda r: r.recovery.recover())
                await self._retry(lambda r: r.cleanup.clean(all_strays=True))
            elif slot is not None:
                await self._run_slot_command(command, slot)
        except (NotFound, SlotInUse):
            pass  # The slot was removed or assigned before the command arrived.

    async def _run_slot_command(self, command: str, slot: SlotId) -> None:
        if command == "cordon":
            for cordoned in (True, False):
                await self._cordon(slot, cordoned=cordoned)
                await asyncio.sleep(self.rng.uniform(0.0, 10.0))
            return
        self.causes.operator_intervened = True
        if command == "release":
            await self._retry(lambda r: r.slot_commands.release(slot, reason="released"))
        elif command == "recover":
            await self._retry(lambda r: r.slot_commands.recover(slot, reason="recovered"))
        else:
            await self._retry(lambda r: r.slot_commands.delete(slot, reason="deleted"))

    async def _cordon(self, slot: SlotId, *, cordoned: bool) -> None:
        await self._retry(lambda r: r.pools.cordon(slot, cordoned=cordoned, reason="test"))

    # Accidents

    async def kill_replica(self) -> None:
        await asyncio.sleep(self.rng.uniform(0.0, 22.0))
        if self.installation.replicas:
            await self.installation.kill(self.rng.choice(self.installation.replicas))

    async def restart_replica(self) -> None:
        await asyncio.sleep(self.rng.uniform(0.0, 22.0))
        if self.installation.replicas:
            await self.installation.stop(self.rng.choice(self.installation.replicas))

    async def break_container(self) -> None:
        await asyncio.sleep(self.rng.uniform(3.0, 22.0))
        if not self.backend.containers:
            return
        container_id = self.rng.choice(sorted(self.backend.containers))
        accident = self.rng.choice(("delete", "exit", "restart"))
        if accident == "delete":
            self.backend.delete(container_id, ANY_ASSIGNMENT)
        elif accident == "exit":
            self.backend.exit(container_id, ContainerState.EXITED)
        else:
            self.backend.restart(container_id)

    async def _retry(self, work: Callable[[Replica], Awaitable[T]]) -> T:
        """Send a request until a replica responds."""
        for _ in range(MAX_TRIES):
            try:
                return await self.installation.send(work)
            except (Unreachable, DatabaseUnavailable):
                await asyncio.sleep(self.rng.uniform(0.1, 2.0))
        raise BotpoolError("no replica responded")
