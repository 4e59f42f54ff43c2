"""A restored database: containers of the lost time must not touch the bots of the new epoch."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from botpool.domain.ids import AssignmentId, BotId, ContainerId
from botpool.domain.observation import ContainerState
from botpool.domain.states import BotStatus
from botpool.engine.replica import Replica
from tests.support.clock import Clock
from tests.support.invariants import assert_invariants
from tests.support.postgres import TestPostgres
from tests.support.replicas import Stage, pool


@dataclass
class Backups:
    """Takes copies of a stage's database and runs the stage on them."""

    postgres: TestPostgres
    stage: Stage
    taken: list[str]

    async def take(self) -> str:
        """Copy the database while no replica uses it."""
        await self._close()
        self.taken.append(self.postgres.create_database(self.stage.url))
        return self.taken[-1]

    async def restore(self, backup: str) -> Replica:
        """Continue on the copy, with the backend as it is."""
        await self._close()
        self.stage.url, self.stage.clock = backup, Clock(backup)
        return await self.stage.replica(pool(2))

    async def _close(self) -> None:
        for database in self.stage.databases:
            await database.close()
        self.stage.databases.clear()


@pytest.fixture
async def backups(stage: Stage, postgres: TestPostgres) -> AsyncIterator[Backups]:
    original = stage.url
    backups = Backups(postgres, stage, [])
    yield backups
    await backups._close()
    for url in backups.taken:
        assert_invariants(url)
        postgres.drop_database(url)
    stage.url = original


async def test_agent_of_the_lost_time_cannot_end_a_new_bot(stage: Stage, backups: Backups) -> None:
    await stage.replica(pool(2))
    backup = await backups.take()
    lost = await stage.run_bot(await stage.replica(pool(2)))
    lost_assignment = AssignmentId(stage.slot_of(lost.bot.id)["assignment_id"])
    replica = await backups.restore(backup)
    new = await stage.run_bot(replica)
    assert new.bot.status is BotStatus.JOINING_CALL, "the backend refused the new bot's start"
    assert new.bot.id != lost.bot.id, "a bot id was issued twice"
    assert not await replica.agents.report(lost_assignment, lost.bot.id, BotStatus.DONE, None)
    assert await replica.agents.record(lost_assignment, lost.bot.id, [("note", {})]) == 0
    instructions = await replica.agents.heartbeat(lost_assignment, lost.bot.id)
    assert instructions.should_exit
    assert stage.statuses(new.bot.id) == ["JOINING_CALL"]


async def test_backend_starts_new_bots_after_stops_of_the_lost_time(
    stage: Stage, backups: Backups
) -> None:
    await stage.replica(pool(2))
    backup = await backups.take()
    replica = await stage.replica(pool(2))
    for _ in range(3):
        lost = await stage.run_bot(replica)
        assert await stage.end(replica, lost.bot.id)
        await stage.settle(replica)
    replica = await backups.restore(backup)
    new = await stage.run_bot(replica)
    assert (new.bot.status, new.bot.attempts) == (BotStatus.JOINING_CALL, 1)


async def test_run_of_the_lost_time_is_stopped_and_its_slot_released(
    stage: Stage, backups: Backups
) -> None:
    """In the lost time, the bot of the backup ended and another one got its slot."""
    replica = await stage.replica(pool(1))
    kept = await stage.run_bot(replica)
    backup = await backups.take()
    replica = await stage.replica(pool(1))
    assert await stage.end(replica, kept.bot.id)
    await stage.settle(replica)
    lost = await stage.run_bot(replica)
    lost_assignment = stage.slot_of(lost.bot.id)["assignment_id"]
    container = stage.backend.containers[ContainerId(str(lost.bot.container_id))]
    assert container.state is ContainerState.RUNNING
    replica = await backups.restore(backup)
    assert stage.statuses(kept.bot.id) == ["JOINING_CALL"]
    await stage.settle(replica)
    assert lost_assignment in stage.backend.calls_of("stop"), "the stop must name the lost run"
    assert stage.statuses(kept.bot.id) == ["FAILED"]
    assert [slot["status"] for slot in stage.slots()] == ["idle"]
    new = await stage.run_bot(replica)
    assert (new.bot.status, new.bot.attempts) == (BotStatus.JOINING_CALL, 1)


async def test_slot_of_the_lost_time_is_adopted_after_its_stop(
    stage: Stage, backups: Backups
) -> None:
    """The restored database does not know the slot, whose container still runs a lost bot."""
    await stage.replica(pool(2))
    backup = await backups.take()
    lost = await stage.run_bot(await stage.replica(pool(2)))
    replica = await backups.restore(backup)
    new = await stage.run_bot(replica)
    assert new.bot.container_id == lost.bot.container_id
    container = stage.backend.containers[ContainerId(str(new.bot.container_id))]
    assert container.assignment_id == stage.slot_of(new.bot.id)["assignment_id"]


async def test_new_epoch_is_reported_once(stage: Stage, backups: Backups) -> None:
    replica = await stage.replica(pool(1))
    await replica.epoch_watch.check()
    assert replica.epoch_watch.number == 1
    replica = await backups.restore(await backups.take())
    await replica.epoch_watch.check()
    assert replica.epoch_watch.number == 2
    await replica.epoch_watch.report_unknown(AssignmentId(7))
    await replica.epoch_watch.check()
    assert replica.epoch_watch.number == 2, "an assignment from before is no new evidence"


async def test_heartbeat_for_the_bot_of_another_agent_is_still_refused(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    first, second = [await stage.run_bot(replica) for _ in range(2)]
    own = AssignmentId(stage.slot_of(first.bot.id)["assignment_id"])
    with pytest.raises(Exception, match="bot"):
        await replica.agents.heartbeat(own, BotId(second.bot.id))
