"""Boot ids: a second boot within an assignment proves that the container exited in between."""

import asyncio

import pytest

from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.states import BotStatus
from botpool.engine.replica import Replica
from tests.support.replicas import Stage, pool


async def identify(
    stage: Stage, replica: Replica, slot: dict[str, object], boot: str | None
) -> bool:
    """Send an identity request; returns whether the agent must exit."""
    assignment, container = AssignmentId(slot["assignment_id"]), ContainerId(slot["container_id"])  # type: ignore[arg-type, call-overload]
    _, released = await replica.agents.identify(assignment, container, boot)
    return released


async def test_second_boot_ends_the_bot_and_must_exit(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot.id
    slot = stage.slot_of(bot)
    assert not await identify(stage, replica, slot, "first")
    assert await identify(stage, replica, slot, "second")
    ended = stage.bot(bot)
    assert (ended["status"], ended["failure_code"]) == ("FAILED", "container_exited")
    assert "started a second time" in ended["failure_reason"]
    assert stage.slots()[0]["status"] == "releasing"
    written = stage.rows(
        "SELECT kind, to_state FROM history WHERE reason LIKE '%%second time%%' ORDER BY id"
    )
    assert [(row["kind"], row["to_state"]) for row in written] == [
        ("bot.status", "FAILED"),
        ("slot.status", "releasing"),
    ]
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "idle"


@pytest.mark.parametrize(
    ("report", "end"), [(BotStatus.IN_CALL, "FAILED"), (BotStatus.CALL_ENDED, "DONE")]
)
async def test_second_boot_keeps_the_end_that_the_first_reported(
    stage: Stage, report: BotStatus, end: str
) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot.id
    slot = stage.slot_of(bot)
    await identify(stage, replica, slot, "first")
    await replica.agents.report(AssignmentId(slot["assignment_id"]), bot, report, None)
    assert await identify(stage, replica, slot, "second")
    assert stage.statuses(bot) == [end]


async def test_repeated_request_of_one_boot_changes_nothing(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot.id
    slot = stage.slot_of(bot)
    for _ in range(3):
        assert not await identify(stage, replica, slot, "first")
    assert stage.statuses(bot) == ["JOINING_CALL"]


@pytest.mark.parametrize("boots", [(None, None), (None, "a"), ("a", None), ("a", None, "a")])
async def test_agent_without_boot_id_proves_nothing(
    stage: Stage, boots: tuple[str | None, ...]
) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot.id
    slot = stage.slot_of(bot)
    for boot in boots:
        assert not await identify(stage, replica, slot, boot)
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_boot_after_the_release_changes_nothing(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot.id
    slot = stage.slot_of(bot)
    await identify(stage, replica, slot, "first")
    await stage.end(replica, bot)
    assert await identify(stage, replica, slot, "second")
    await stage.settle(replica)
    assert await identify(stage, replica, slot, "third")
    assert stage.statuses(bot) == ["DONE"]
    recorded = stage.rows("SELECT boot_id FROM assignments WHERE id = %s", slot["assignment_id"])
    assert recorded == [{"boot_id": "first"}]


async def test_each_assignment_has_its_own_first_boot(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    for boot in ("first", "second"):
        bot = (await stage.run_bot(replica)).bot.id
        assert not await identify(stage, replica, stage.slot_of(bot), boot)
        await stage.end(replica, bot)
        await stage.settle(replica)
        assert stage.statuses(bot) == ["DONE"]


async def test_two_boots_at_two_replicas_at_once_leave_one(stage: Stage) -> None:
    one, two = await stage.replica(pool(1)), await stage.replica(pool(1))
    bot = (await stage.run_bot(one)).bot.id
    slot = stage.slot_of(bot)
    released = await asyncio.gather(
        identify(stage, one, slot, "first"), identify(stage, two, slot, "second")
    )
    assert any(released)
    assert stage.statuses(bot) == ["FAILED"]
    ends = stage.rows("SELECT id FROM history WHERE to_state = 'FAILED'")
    assert len(ends) == 1
