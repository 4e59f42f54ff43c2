"""A container may take minutes to stop: the slot waits as a row, without a worker or a lease.

A crash before the signal: the slot is still releasing, and another replica sends it. A crash after
the signal and before its record: the container gets it a second time. A crash during the grace: the
time of the signal is a column. A late or repeated stop names its assignment, and leaves a later run
alone.
"""

from dataclasses import replace

import pytest

from botpool.backends.protocol import StopMode
from botpool.domain.errors import BackendUnavailable
from botpool.domain.ids import BotId
from botpool.engine.replica import Replica
from tests.support.replicas import Stage, bot_request, pool

ASK, KILL = StopMode.ASK, StopMode.KILL
SLOW = replace(pool(1), stop_grace_s=900.0)


async def releasing(stage: Stage, replica: Replica) -> BotId:
    """A bot that ended, in a container that does not obey its stop signal."""
    stage.backend.obeys_signals = False
    bot = (await stage.run_bot(replica)).bot.id
    await stage.end(replica, bot)
    await stage.settle(replica)
    return bot


async def test_container_that_stops_at_once_is_handed_over_in_the_same_step(stage: Stage) -> None:
    replica = await stage.replica(SLOW)
    bot = (await stage.run_bot(replica)).bot.id
    await stage.end(replica, bot)
    await stage.step(replica)
    assert stage.slots()[0]["status"] == "idle"
    assert stage.backend.stop_modes == [ASK]


async def test_container_has_its_grace_and_is_killed_afterwards(stage: Stage) -> None:
    replica = await stage.replica(SLOW)
    await releasing(stage, replica)
    for _ in range(14):
        slot = stage.slots()[0]
        assert (slot["status"], slot["lease_owner"]) == ("releasing", None)
        stage.clock.move(60)
        await stage.settle(replica)
    assert stage.backend.stop_modes == [ASK], "one signal in the whole grace"
    stage.clock.move(70)
    await stage.settle(replica)
    assert stage.backend.stop_modes == [ASK, KILL]
    assert stage.slots()[0]["status"] == "idle"


async def test_exit_within_the_grace_hands_the_slot_over_at_once(stage: Stage) -> None:
    replica = await stage.replica(SLOW)
    await releasing(stage, replica)
    waiting = (await replica.admission.admit(bot_request())).bot.id
    container = stage.slots()[0]["container_id"]
    stage.clock.move(120)
    stage.backend.exit(container, 0)
    await replica.observer.observe_change("process", container)
    assert stage.slots()[0]["assigned_bot_id"] == waiting
    assert stage.backend.stop_modes == [ASK]


async def test_another_replica_kills_after_the_grace_that_the_first_one_began(stage: Stage) -> None:
    first, second = await stage.replica(SLOW), await stage.replica(SLOW)
    await releasing(stage, first)
    stage.clock.move(450)
    await stage.settle(second)
    assert stage.backend.stop_modes == [ASK]
    stage.clock.move(451)
    await stage.settle(second)
    assert stage.backend.stop_modes == [ASK, KILL]


async def test_signal_that_the_backend_did_not_take_is_sent_again(stage: Stage) -> None:
    replica = await stage.replica(SLOW)
    stage.backend.fail("stop", BackendUnavailable("away"))
    await releasing(stage, replica)
    stage.clock.move(20)
    await stage.settle(replica)
    assert stage.backend.stop_modes == [ASK, ASK]


async def test_pool_without_grace_kills_at_once(stage: Stage) -> None:
    replica = await stage.replica(replace(pool(1), stop_grace_s=0.0))
    await releasing(stage, replica)
    assert stage.backend.stop_modes == [KILL]


async def test_container_that_even_a_kill_does_not_stop_is_deleted(stage: Stage) -> None:
    replica = await stage.replica(SLOW)
    stage.backend.stops_work = False
    await releasing(stage, replica)
    for _ in range(12):
        stage.clock.move(100)
        await stage.settle(replica)
    assert stage.backend.calls_of("delete")
    assert stage.slots()[0]["status"] in ("idle", "error")


@pytest.mark.parametrize("set_back_s", [600, 7_200])
async def test_clock_set_back_does_not_prolong_the_grace(stage: Stage, set_back_s: int) -> None:
    replica = await stage.replica(SLOW)
    await releasing(stage, replica)
    stage.clock.move(-set_back_s)
    await replica.recovery.run()
    stage.clock.move(901)
    await stage.settle(replica)
    assert stage.backend.stop_modes[-1] is KILL


async def test_shutdown_does_not_wait_for_the_grace(stage: Stage) -> None:
    replica = await stage.replica(SLOW)
    await releasing(stage, replica)
    await replica.shutdown.end_all(reason="test", within_s=0.01)
    stage.clock.move(5)
    await stage.settle(replica)
    assert stage.backend.stop_modes == [ASK, KILL]
