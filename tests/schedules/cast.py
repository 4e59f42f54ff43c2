"""Who is on stage beside the replicas: agents in containers, users, operators, and accidents."""

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
from tests.schedules.causes import Causes
from tests.schedules.conductor import Conductor
from tests.schedules.installation import BRISK, Installation, Unreachable
from tests.schedules.simulated_platform import PoolName, Run
from tests.support.replicas import bot_request, key

T = TypeVar("T")
BEAT_S = 1.5
TRIES = 60
_CHARACTERS = (*["good"] * 8, "crashes", "silent", "refused", "mute")


class Cast:
    def __init__(self, conductor: Conductor) -> None:
        self.chance = conductor.chance
        self.conductor = conductor
        self.accepted: list[BotId] = []
        self.joined: dict[BotId, list[AssignmentId]] = defaultdict(list)
        self.causes = Causes(BRISK)
        self.violations: list[str] = []
        self.installation: Installation
        self.pool_name: PoolName

    # Agents

    async def live(self, run: Run) -> None:
        """An agent, from its container's start to its end."""
        await asyncio.sleep(self.chance.uniform(0.0, 0.5))
        character = self.chance.choice(_CHARACTERS)
        if character == "mute":
            await asyncio.sleep(3600)
        me, bot = run.assignment_id, run.bot_id
        _, released = await self._insist(lambda r: r.agents.identify(me, run.container_id))
        if not released:
            self._join(run)
            await self._be_in_the_call(me, bot, character)
        self.pool_name.exit(run.container_id, ContainerState.EXITED)

    async def _be_in_the_call(self, me: AssignmentId, bot: BotId, character: str) -> None:
        ends_at = self.conductor.now + self.chance.uniform(0.5, 4.0)
        await self._insist(lambda r: r.agents.report(me, bot, BotStatus.IN_CALL, None))
        while self.conductor.now < ends_at:
            sent_at = self.conductor.now
            orders = await self._insist(lambda r: r.agents.heartbeat(me, bot))
            if orders.should_exit:
                return
            self.causes.beat_at[bot] = sent_at
            if orders.should_leave:
                break
            if character == "crashes":
                return
            if character == "silent":
                await asyncio.sleep(3600)
            await asyncio.sleep(BEAT_S)
        ending = BotStatus.FAILED if character == "refused" else BotStatus.DONE
        self.causes.said[bot].add(ending)
        for _ in range(self.chance.choice((1, 1, 2))):
            await self._insist(lambda r: r.agents.report(me, bot, ending, None))

    def _join(self, run: Run) -> None:
        self.joined[run.bot_id].append(run.assignment_id)
        if len(self.joined[run.bot_id]) > 1:
            self.violations.append(f"{self.conductor.now:.3f} bot {run.bot_id} joined twice")

    # Users

    async def post(self, number: int) -> None:
        """Send a bot, as a client does that tries again; some send it twice at once."""
        await asyncio.sleep(self.chance.uniform(0.0, 12.0))
        request = bot_request(
            priority=self.chance.choice((50, 100, 100, 100)),
            queue_timeout_ms=self.chance.choice((0, 3_000, 60_000, 60_000, 60_000, 60_000)),
            correlation_id=f"c{number}",
        )
        key_ = key(f"k{number}")
        posts = [
            self._insist(lambda r: r.admission.admit(request, key_))
            for _ in range(self.chance.choice((1, 1, 2)))
        ]
        answers = await asyncio.gather(*posts, return_exceptions=True)
        admitted = [answer for answer in answers if not isinstance(answer, BaseException)]
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(
                answer, NoFreeSlot | PoolDrained
            ):
                raise answer
        if len({answer.bot.id for answer in admitted}) > 1:
            self.violations.append(f"request {number} was admitted twice")
        if admitted:
            self.accepted.append(admitted[0].bot.id)
            if self.chance.random() < 0.25:
                await asyncio.sleep(self.chance.uniform(0.0, 12.0))
                self.causes.stop_asked.add(admitted[0].bot.id)
                await self._insist(lambda r: r.bot_stopper.stop(admitted[0].bot.id))

    # Operators

    async def operate(self) -> None:
        await asyncio.sleep(self.chance.uniform(2.0, 20.0))
        slots = await self._insist(lambda r: r.queries.slots(pool_name=None, status=None))
        pool_name = self.installation.pools[0].pool_name
        pull = self.chance.choice(("release", "recover", "cordon", "delete", "drain", "pass"))
        slot = SlotId(self.chance.choice(slots).id) if slots else None
        try:
            if pull == "drain":
                await self._insist(lambda r: r.pools.drain(pool_name, drained=True, reason="test"))
                await asyncio.sleep(self.chance.uniform(0.0, 10.0))
                await self._insist(lambda r: r.pools.drain(pool_name, drained=False, reason="test"))
            elif pull == "pass":
                await self._insist(lambda r: r.recovery.recover())
                await self._insist(lambda r: r.cleanup.clean(all_strays=True))
            elif slot is not None:
                await self._pull(pull, slot)
        except (NotFound, SlotInUse):
            pass  # The slot went away, or was taken, before the word arrived.

    async def _pull(self, pull: str, slot: SlotId) -> None:
        if pull == "cordon":
            for cordoned in (True, False):
                await self._cordon(slot, cordoned=cordoned)
                await asyncio.sleep(self.chance.uniform(0.0, 10.0))
            return
        self.causes.operated = True
        if pull == "release":
            await self._insist(lambda r: r.slot_commands.release(slot, reason="released"))
        elif pull == "recover":
            await self._insist(lambda r: r.slot_commands.recover(slot, reason="recovered"))
        else:
            await self._insist(lambda r: r.slot_commands.delete(slot, reason="deleted"))

    async def _cordon(self, slot: SlotId, *, cordoned: bool) -> None:
        await self._insist(lambda r: r.pools.cordon(slot, cordoned=cordoned, reason="test"))

    # Accidents

    async def kill_a_replica(self) -> None:
        await asyncio.sleep(self.chance.uniform(0.0, 22.0))
        if self.installation.living:
            await self.installation.kill(self.chance.choice(self.installation.living))

    async def restart_a_replica(self) -> None:
        await asyncio.sleep(self.chance.uniform(0.0, 22.0))
        if self.installation.living:
            await self.installation.stop(self.chance.choice(self.installation.living))

    async def break_a_container(self) -> None:
        await asyncio.sleep(self.chance.uniform(3.0, 22.0))
        if not self.pool_name.containers:
            return
        container_id = self.chance.choice(sorted(self.pool_name.containers))
        if self.chance.random() < 0.5:
            self.pool_name.delete(container_id)
        else:
            self.pool_name.exit(container_id, ContainerState.EXITED)

    async def _insist(self, work: Callable[[Replica], Awaitable[T]]) -> T:
        """Ask until somebody answers."""
        for _ in range(TRIES):
            try:
                return await self.installation.ask(work)
            except (Unreachable, DatabaseUnavailable):
                await asyncio.sleep(self.chance.uniform(0.1, 2.0))
        raise BotpoolError("nobody ever answered")
