"""The refill and the limits of a backend: bots that wait go first."""

from collections import Counter

import pytest

from botpool.backends.protocol import RequestPurpose
from botpool.engine.replica import Replica
from tests.support.replicas import TEAMS as OTHER
from tests.support.replicas import Stage, bot_request, pool
from tests.support.standbys import StandbyAgent, hot_pool, keep


@pytest.fixture(autouse=True)
def known_image(stage: Stage) -> None:
    stage.rows("INSERT INTO known_images VALUES ('process', 'here', 'demo', 'infinity')")


def phases(stage: Stage) -> Counter[tuple[bool, str | None]]:
    """Count the phases of slots, apart for slots with and without a bot."""
    return Counter((bool(slot["assigned_bot_id"]), slot["phase"]) for slot in stage.slots())


async def test_standbys_leave_one_start_to_the_next_bot(stage: Stage) -> None:
    stage.backend.concurrent_starts = 3
    stage.backend.has_deployments = True
    replica = await stage.replica(hot_pool(4, max_size=6))
    await keep(stage, replica)
    assert phases(stage) == {(False, "starting"): 2, (False, "waiting_for_start"): 2}
    other = await stage.replica(hot_pool(0), pool(2, OTHER))
    await other.admission.admit(bot_request(OTHER))
    while await stage.step(other):
        pass
    assert phases(stage)[True, "starting"] == 1, "the bot starts at once"


async def test_limit_of_one_start_is_used_by_standbys_too(stage: Stage) -> None:
    stage.backend.concurrent_starts = 1
    stage.backend.has_deployments = True
    replica = await stage.replica(hot_pool(2))
    await keep(stage, replica)
    assert phases(stage) == {(False, "starting"): 1, (False, "waiting_for_start"): 1}


async def test_bot_at_the_gate_starts_before_standbys(stage: Stage) -> None:
    stage.backend.concurrent_starts = 1
    stage.backend.has_deployments = True
    replica = await stage.replica(hot_pool(3), pool(2, OTHER))
    await keep(stage, replica)
    (starting,) = [slot for slot in stage.slots() if slot["phase"] == "starting"]
    await replica.admission.admit(bot_request(OTHER))
    while await stage.step(replica):
        pass
    assert phases(stage)[True, "waiting_for_start"] == 1
    await StandbyAgent(replica, starting).open(stage)
    await replica.image_gate.open("process")
    assert phases(stage)[True, "starting"] == 1
    assert phases(stage)[False, "starting"] == 0


async def test_start_of_a_standby_leaves_requests_to_bots(stage: Stage) -> None:
    replica: Replica = await stage.replica(hot_pool(1, max_size=1), pool(1, OTHER))
    await keep(stage, replica)
    await replica.admission.admit(bot_request(OTHER))
    while await stage.step(replica):
        pass
    purposes = [request.purpose for request in stage.backend.start_requests]
    assert purposes == [RequestPurpose.CREATE, RequestPurpose.START]


async def test_claims_do_not_delay_the_refill(stage: Stage) -> None:
    """A claim every half a second: the refill still starts one standby a second."""
    replica = await stage.replica(hot_pool(4, max_size=30, refill_per_minute=60))
    started = []
    for _ in range(8):
        await replica.admission.admit(bot_request())
        stage.clock.move(0.5)
        await keep(stage, replica)
        standbys = stage.rows("SELECT count(*) AS n FROM history WHERE kind = 'slot.standby'")
        started.append(standbys[0]["n"])
    assert started == [2, 2, 3, 3, 4, 4, 5, 5]
