"""The columns of a slot that each assignment and each release writes (seed 000)."""

from datetime import datetime
from typing import Any

from botpool.domain.errors import BackendRefused
from botpool.domain.policy import Policy
from tests.support.replicas import Stage, bot_request, pool


def now(stage: Stage) -> datetime:
    (row,) = stage.rows("SELECT botpool_now() AS now")
    moment: datetime = row["now"]
    return moment


def columns(stage: Stage, *names: str) -> tuple[Any, ...]:
    (slot,) = stage.slots()
    return tuple(slot[name] for name in names)


async def test_assignment_sets_times_and_clears_error(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.fail("start", BackendRefused("image", "is not there"))
    await stage.run_bot(replica)
    assert columns(stage, "status", "error_message") == ("idle", "image: is not there")
    assert columns(stage, "error_at") != (None,)
    stage.clock.move(60)
    await replica.admission.admit(bot_request())
    assert columns(stage, "last_assigned_at", "last_used_at") == (now(stage), now(stage))
    assert columns(stage, "error_message", "error_at") == (None, None)


async def test_assignment_from_queue_sets_the_same_columns(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    first = (await stage.run_bot(replica)).bot
    second = (await replica.admission.admit(bot_request())).bot
    stage.clock.move(60)
    await stage.end(replica, first.id)
    await stage.settle(replica)
    assert columns(stage, "assigned_bot_id") == (second.id,)
    assert columns(stage, "last_assigned_at", "last_used_at", "last_released_at") == (
        (now(stage),) * 3
    )


async def test_every_release_sets_its_time(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    bot = (await stage.run_bot(replica)).bot
    stage.clock.move(60)
    await stage.end(replica, bot.id)
    await stage.settle(replica)
    assert columns(stage, "assigned_bot_id", "last_released_at") == (None, now(stage))
    stage.clock.move(60)
    stage.backend.fail("start", BackendRefused("image", "is not there"))
    await stage.run_bot(replica)
    assert columns(stage, "assigned_bot_id", "last_released_at") == (None, now(stage))
