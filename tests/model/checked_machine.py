"""The base of the state machine: it runs operations and checks the installation after each.

After each step the reference applies every history row written since the last step. Then the test
compares the tables with the reference, checks every invariant, and asks the backend whether a
container ran that must not run.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.domain.warm import Warm
from botpool.engine.replica import Replica
from tests.model.crashing_replica import ModelReplica, ReplicaCrashed
from tests.model.model_database import ModelDatabase, Snapshot
from tests.model.recording_backend import RecordingBackend
from tests.model.reference import Pool, Reference
from tests.support.replicas import MEET, TEAMS, pool

T = TypeVar("T")
POLICY = Policy()
MAXIMA = {MEET: 2, TEAMS: 1}
OUTAGE_S = 30
"""A longer gap in the liveness of all replicas counts as an outage of the installation."""
CRASHED = object()
"""The result of an operation whose replica crashed."""


class CheckedMachine(RuleBasedStateMachine):
    model: ClassVar[ModelDatabase]

    def __init__(self) -> None:
        super().__init__()
        self.model.reset()
        self.backend = RecordingBackend()
        self.reference = Reference({name: Pool(maximum=size) for name, size in MAXIMA.items()})
        self.replicas = [self.new_replica(), self.new_replica()]
        self.paused: tuple[ModelReplica, list[asyncio.Task[Any]], asyncio.Event] | None = None
        self.api_keys: dict[str, tuple[bytes, int]] = {}
        self.snapshot = self.model.take_snapshot()
        self.do(self.configure)

    def new_replica(self) -> ModelReplica:
        return ModelReplica(self.model.database, self.model.turn, self.backend, POLICY)

    async def configure(self, replica: Replica) -> None:
        await replica.pools.configure(
            [
                pool(each.maximum, name, warm=Warm(hot=each.hot))
                for name, each in self.reference.pools.items()
            ]
        )

    def do(
        self,
        work: Callable[[Replica], Awaitable[T]] | None,
        *,
        which: int = 0,
        repeat: bool = False,
    ) -> Any:
        """Let a replica do the work (its due steps, by default), then check the installation.

        `repeat`: if the replica crashes, send the same request to another one, as a client does.
        """
        self.crashed = False
        while True:
            index = which % len(self.replicas)
            replica = self.replicas[index]
            try:
                done = self.model.run(_run(replica, work))
            except (ReplicaCrashed, asyncio.CancelledError):
                assert replica.crash_plan.has_crashed, "work was cancelled without a crash"
                replica.discard()
                self.replicas[index] = self.new_replica()
                self.crashed, done = True, CRASHED
            self.check()
            if done is not CRASHED or not repeat:
                return done

    def check(self) -> None:
        """Apply the new history to the reference and check every promise."""
        self.model.steps += 1
        for container in self.backend.containers.values():
            if container.state in (ContainerState.EXITED, ContainerState.ERROR):
                self.record_container_end(container.assignment_id)
        self.reference.refused |= self.backend.refused
        self.backend.refused.clear()
        self.snapshot = snapshot = self.model.take_snapshot()
        for transaction in snapshot.transactions:
            self.reference.apply_transaction(transaction)
        for slot in snapshot.slots:
            if slot["assigned_bot_id"] is not None:
                self.reference.bots[slot["assigned_bot_id"]].run = slot["run_id"]
        _compare(self.reference, snapshot)
        assert not snapshot.broken_invariants, snapshot.broken_invariants
        assert not self.backend.violations, self.backend.violations
        self._check_free_slots(snapshot)

    def _check_free_slots(self, snapshot: Snapshot) -> None:
        started_by_others = self.backend.started_by_others
        for slot in snapshot.slots:
            container_id = slot["container_id"]
            container = self.backend.containers.get(container_id)
            if container and container.state is not ContainerState.RUNNING:
                started_by_others.discard(container_id)
            if slot["status"] in ("idle", "error") and container:
                stopped = container.state is not ContainerState.RUNNING
                # A slot in error has its standby until the reset stops it.
                is_standby = container.assignment_id in self.backend.standby_ids and (
                    slot["status"] == "error" or container.assignment_id == slot["run_id"]
                )
                may_run = is_standby or container_id in started_by_others
                assert stopped or may_run, "a free slot's container runs"

    def advance_clock(self, seconds: float, *, alive: bool) -> None:
        """Advance the time; `alive`: a replica records its liveness meanwhile."""
        left = seconds
        while left > 0:
            part = min(left, 29 if alive and seconds < 1000 else left)
            left -= part
            self.reference.now += part
            self.model.set_clock(self.reference.now)
            if part > OUTAGE_S:
                self.reference.outage_ended_at = self.reference.now
            if alive:
                self.model.run(_run(self.replicas[-1], lambda r: r.liveness.record()))

    def record_container_end(self, assignment: int | None) -> None:
        for bot in self.reference.bots.values():
            ended = assignment is not None and assignment in (bot.assignment, bot.run)
            bot.container_ended = bot.container_ended or ended

    def record_agent_call(self, assignment: int, number: int) -> bool:
        """Record that an agent calls. Return whether the agent's assignment is current."""
        is_live = self.reference.is_live(number, assignment)
        if is_live:
            self.reference.bots[number].agent_called = True
        return is_live


def _compare(reference: Reference, snapshot: Snapshot) -> None:
    """Check that the tables hold what the history says."""
    assert {bot["id"]: (bot["status"], bot["attempts"]) for bot in snapshot.bots} == {
        number: (bot.status, bot.attempts) for number, bot in reference.bots.items()
    }
    assert {
        slot["slot_name"]: (slot["status"], slot["assigned_bot_id"], slot["cordoned"])
        for slot in snapshot.slots
    } == {name: (slot.status, slot.bot, slot.cordoned) for name, slot in reference.slots.items()}
    for pool_name in reference.pools:
        waiting = [row["bot_id"] for row in snapshot.queue if row["pool_name"] == pool_name]
        assert waiting == reference.queue(pool_name)


async def _run(replica: ModelReplica, work: Callable[[Replica], Awaitable[T]] | None) -> Any:
    return await (work(replica.replica) if work else replica.step())
