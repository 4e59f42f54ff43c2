"""One life of a Botpool: how things are done in it, and how they are seen.

After each step everything written since is followed by the reference, what the database holds is
compared with it, every invariant is asked, and the backend says whether anything ran that should
not have.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.engine.replica import Replica
from tests.model.reference import Pool, Reference
from tests.model.theatre import Sight, Theatre
from tests.model.world import Killed, Living, PoolName
from tests.support.replicas import MEET, TEAMS, pool

T = TypeVar("T")
POLICY = Policy()
MAXIMA = {MEET: 2, TEAMS: 1}
OUTAGE_S = 30
"""So long without a sign of any replica is an outage of our own."""
DIED = object()
"""The answer of a replica that died."""


class Life(RuleBasedStateMachine):
    theatre: ClassVar[Theatre]

    def __init__(self) -> None:
        super().__init__()
        self.theatre.empty()
        self.pool_name = PoolName()
        self.reference = Reference({name: Pool(maximum=size) for name, size in MAXIMA.items()})
        self.living = [self.new_replica(), self.new_replica()]
        self.paused: tuple[Living, list[asyncio.Task[Any]], asyncio.Event] | None = None
        self.api_keys: dict[str, tuple[bytes, int]] = {}
        self.sight = self.theatre.observe()
        self.do(self.configure)

    def new_replica(self) -> Living:
        return Living(self.theatre.database, self.theatre.turn, self.pool_name, POLICY)

    async def configure(self, replica: Replica) -> None:
        maxima = {name: each.maximum for name, each in self.reference.pools.items()}
        await replica.pools.configure([pool(size, name) for name, size in maxima.items()])

    def do(
        self,
        work: Callable[[Replica], Awaitable[T]] | None,
        *,
        which: int = 0,
        repeat: bool = False,
    ) -> Any:
        """Let a replica do it (its due steps, by default), and see what came of it.

        `repeat`: whoever asked gets no answer from a replica that dies, and asks another.
        """
        self.died = False
        while True:
            living = self.living[which % len(self.living)]
            try:
                done = self.theatre.run(_one(living, work))
            except (Killed, asyncio.CancelledError):
                assert living.fate.is_dead, "cancelled by nobody"
                living.bury()
                self.living[which % len(self.living)] = self.new_replica()
                self.died, done = True, DIED
            self.see()
            if done is not DIED or not repeat:
                return done

    def see(self) -> None:
        self.theatre.steps += 1
        for container in self.pool_name.containers.values():
            if container.state in (ContainerState.EXITED, ContainerState.ERROR):
                self.fell(container.assignment_id)
        self.reference.refused |= self.pool_name.refused
        self.pool_name.refused.clear()
        self.sight = sight = self.theatre.observe()
        for transaction in sight.transactions:
            self.reference.follow(transaction)
        _compare(self.reference, sight)
        assert not sight.broken, sight.broken
        assert not self.pool_name.outrages, self.pool_name.outrages
        for slot in sight.slots:
            container = self.pool_name.containers.get(slot["container_id"])
            if container and container.state is not ContainerState.RUNNING:
                self.pool_name.haunted.discard(slot["container_id"])
            if slot["status"] in ("idle", "error") and container:
                quiet = container.state is not ContainerState.RUNNING
                assert quiet or slot["container_id"] in self.pool_name.haunted, "it runs for nobody"

    def pass_time(self, seconds: float, *, alive: bool) -> None:
        """Time in which replicas lived, or did not."""
        left = seconds
        while left > 0:
            part = min(left, 29 if alive and seconds < 1000 else left)
            left -= part
            self.reference.now += part
            self.theatre.move_clock(self.reference.now)
            if part > OUTAGE_S:
                self.reference.outage_ended_at = self.reference.now
            if alive:
                self.theatre.run(_one(self.living[-1], lambda r: r.recovery.record_liveness()))

    def fell(self, assignment: int | None) -> None:
        for bot in self.reference.bots.values():
            bot.fell = bot.fell or (assignment is not None and bot.assignment == assignment)

    def hear(self, assignment: int, number: int) -> bool:
        """An agent calls: while it is live, that says that its container runs."""
        live = self.reference.is_live(number, assignment)
        if live:
            self.reference.bots[number].agent_called = True
        return live


def _compare(reference: Reference, sight: Sight) -> None:
    """What the history tells is what the tables hold."""
    assert {bot["id"]: (bot["status"], bot["attempts"]) for bot in sight.bots} == {
        number: (bot.status, bot.attempts) for number, bot in reference.bots.items()
    }
    assert {
        slot["slot_name"]: (slot["status"], slot["assigned_bot_id"], slot["cordoned"])
        for slot in sight.slots
    } == {name: (slot.status, slot.bot, slot.cordoned) for name, slot in reference.slots.items()}
    for pool_name in reference.pools:
        waiting = [row["bot_id"] for row in sight.queue if row["pool_name"] == pool_name]
        assert waiting == reference.queue(pool_name)


async def _one(living: Living, work: Callable[[Replica], Awaitable[T]] | None) -> Any:
    return await (work(living.replica) if work else living.step())
