"""Warm floors when a clock is set: windows, standbys and the refill follow the database's clock."""

import time
from collections import Counter
from datetime import timedelta

import pytest

from botpool.domain.observation import ContainerState
from botpool.domain.warm import WarmWindow
from tests.support.replicas import Stage
from tests.support.scheduled_bots import NOW
from tests.support.standbys import hot_pool, keep, ready_standby

HOUR_S = 3600.0
KNOWN = "INSERT INTO known_images VALUES ('process', 'here', 'demo', botpool_now())"


def standbys(stage: Stage) -> Counter[str | None]:
    return Counter(slot["standby"] for slot in stage.slots())


def window_of(first_minute: int, last_minute: int, hot: int) -> WarmWindow:
    starts, ends = NOW + timedelta(minutes=first_minute), NOW + timedelta(minutes=last_minute)
    return WarmWindow(
        days=tuple(range(7)),
        starts=f"{starts:%H:%M}",
        ends=f"{ends:%H:%M}",
        timezone="UTC",
        hot=hot,
    )


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S])
async def test_window_opens_by_the_clock_after_a_jump(stage: Stage, jump_s: float) -> None:
    minute = int(jump_s // 60)
    window = window_of(minute - 5, minute + 5, hot=3)
    replica = await stage.replica(hot_pool(1, windows=(window,), max_age_s=86_400))
    await ready_standby(stage, replica)
    stage.clock.move(jump_s)
    await replica.liveness.check()
    await replica.recovery.recover()
    await keep(stage, replica)
    assert standbys(stage) == {"ready": 1, "starting": 2}, "the standby from before stays"


async def test_clock_of_the_replica_decides_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica whose own clock is an hour fast keeps the floors of the database's time."""
    replica = await stage.replica(hot_pool(1, windows=(window_of(55, 65, hot=3),)))
    true_time = time.time
    monkeypatch.setattr(time, "time", lambda: true_time() + HOUR_S)
    await keep(stage, replica)
    assert standbys(stage) == {"starting": 1}


async def test_recovery_leaves_a_standby_alone_that_is_still_starting(stage: Stage) -> None:
    """The first start of an image takes minutes: its deadline is plausible, and no clock jump."""
    stage.backend.state_after_start = ContainerState.STARTING
    replica = await stage.replica(hot_pool(2))
    await keep(stage, replica)
    before = stage.slots()
    assert Counter(slot["phase"] for slot in before) == {"starting": 1, "waiting_for_image": 1}
    await replica.recovery.rescheduling.run()
    await stage.settle(replica)
    assert stage.slots() == before


async def test_starting_standby_keeps_its_deadline_after_the_clock_was_set_back(
    stage: Stage,
) -> None:
    stage.rows(KNOWN)
    replica = await stage.replica(hot_pool(1))
    await keep(stage, replica)
    stage.clock.move(-HOUR_S)
    await replica.recovery.recover()
    await stage.settle(replica)
    (slot,) = stage.slots()
    assert (slot["standby"], slot["phase"]) == ("starting", "starting")
    (left,) = stage.rows("SELECT next_step_at - botpool_now() AS left FROM bot_pool_slots")
    assert timedelta(seconds=1) < left["left"] <= timedelta(seconds=1800)


async def test_standby_is_replaced_at_its_age_after_the_clock_was_set_back(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=2, max_age_s=600))
    await ready_standby(stage, replica)
    stage.clock.move(-HOUR_S)
    await replica.recovery.recover()
    stage.clock.move(601)
    await keep(stage, replica)
    assert standbys(stage) == {"ready": 1, "starting": 1}


async def test_refill_continues_after_the_clock_was_set_back(stage: Stage) -> None:
    stage.rows(KNOWN)
    replica = await stage.replica(hot_pool(4, refill_per_minute=60))
    await keep(stage, replica)
    assert standbys(stage) == {"starting": 2}
    await keep(stage, replica)
    assert standbys(stage) == {"starting": 2}, "the rate is used up"
    stage.clock.move(-HOUR_S)
    await replica.recovery.recover()
    await keep(stage, replica)
    assert standbys(stage) == {"starting": 4}


async def test_failed_slot_is_filled_again_after_the_clock_was_set_back(stage: Stage) -> None:
    stage.rows(KNOWN)
    replica = await stage.replica(hot_pool(1, max_size=1))
    await keep(stage, replica)
    stage.backend.show(stage.slots()[0]["container_id"], ContainerState.EXITED)
    await replica.observer.observe("process")
    await stage.settle(replica)
    stage.clock.move(-HOUR_S)
    await replica.recovery.recover()
    stage.clock.move(60)
    await keep(stage, replica)
    assert standbys(stage) == {"starting": 1}
