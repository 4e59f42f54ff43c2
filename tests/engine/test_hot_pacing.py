"""Hot slots of a paced pool: a standby starts without a permit, and its hand-over spends one."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from botpool.domain.ids import BotId, PoolName
from botpool.domain.pacing import Pacing
from botpool.domain.pools import PoolSpec
from botpool.engine.replica import Replica
from tests.support.invariants import assert_invariants
from tests.support.replicas import MEET, TEAMS, Stage, bot_request, pool
from tests.support.standbys import StandbyAgent, hot_pool, keep

PACE = Pacing(
    egress="office", per_minute=6, burst=2, pause_after_blocks=3, pause_s=300, recover_s=1000
)


@pytest.fixture(autouse=True)
def known_image(stage: Stage) -> None:
    stage.rows("INSERT INTO known_images VALUES ('process', 'here', 'demo', 'infinity')")


def paced(hot: int, pool_name: PoolName = MEET, max_size: int = 8, **changes: Any) -> PoolSpec:
    warm = hot_pool(hot).warm
    return replace(pool(max_size, pool_name, warm=warm), pacing=replace(PACE, **changes))


async def hot_slots(stage: Stage, replica: Replica) -> None:
    """Start the standbys of the replica's pools and open their polls."""
    await keep(stage, replica)
    for slot in stage.slots():
        if slot["standby"] == "starting":
            await StandbyAgent(replica, slot).open(stage)


async def admit(replica: Replica, bots: int, pool_name: PoolName = MEET) -> list[BotId]:
    request = bot_request(pool_name, queue_timeout_ms=3_600_000)
    return [(await replica.admission.admit(request)).bot.id for _ in range(bots)]


def permits(stage: Stage) -> float:
    (row,) = stage.rows("SELECT botpool_permits(e) AS permits FROM egresses e")
    return float(row["permits"])


def handing_over(stage: Stage) -> int:
    return sum(slot["phase"] == "handing_over" for slot in stage.slots())


async def test_standby_starts_without_a_permit(stage: Stage) -> None:
    replica = await stage.replica(paced(4))
    await hot_slots(stage, replica)
    assert [slot["standby"] for slot in stage.slots()] == ["ready"] * 4
    assert permits(stage) == 2


async def test_hand_overs_follow_the_pace(stage: Stage) -> None:
    replica = await stage.replica(paced(4))
    await hot_slots(stage, replica)
    bots = await admit(replica, 4)
    assert (handing_over(stage), permits(stage)) == (2, 0)
    assert stage.statuses(*bots) == ["DEPLOYING", "DEPLOYING", "QUEUED", "QUEUED"]
    stage.clock.move(10)
    await replica.queue_poller.poll()
    assert stage.statuses(*bots)[2:] == ["DEPLOYING", "QUEUED"]
    assert_invariants(stage.url)


async def test_hand_over_and_start_together_spend_the_permits(stage: Stage) -> None:
    replica = await stage.replica(paced(1))
    await hot_slots(stage, replica)
    bots = await admit(replica, 3)
    assert (handing_over(stage), permits(stage)) == (1, 1)
    while await stage.step(replica):
        pass
    assert (len(stage.backend.runs), permits(stage)) == (2, 0)
    assert stage.statuses(*bots)[2] == "QUEUED"


async def test_pools_of_one_egress_hand_over_no_more_than_its_permits(stage: Stage) -> None:
    pools = [paced(4, MEET), paced(4, TEAMS)]
    replicas = [await stage.replica(*pools) for _ in range(2)]
    await hot_slots(stage, replicas[0])
    assert len(stage.slots()) == 8
    await asyncio.gather(
        *(admit(replica, 4, name) for replica, name in zip(replicas, (MEET, TEAMS), strict=True))
    )
    assert (handing_over(stage), permits(stage)) == (2, 0)


async def test_hand_over_is_the_probe_of_an_open_breaker(stage: Stage) -> None:
    replica = await stage.replica(paced(2))
    await hot_slots(stage, replica)
    stage.rows("UPDATE egresses SET breaker = 'open', probe_at = botpool_now()")
    first, second = await admit(replica, 2)
    (egress,) = stage.rows("SELECT * FROM egresses")
    assert egress["breaker"] == "half_open"
    assert egress["probe_assignment_id"] == stage.slot_of(first)["assignment_id"]
    assert stage.statuses(second) == ["QUEUED"]
    (change,) = stage.rows("SELECT * FROM history WHERE kind = 'egress.breaker'")
    assert (change["from_state"], change["to_state"]) == ("open", "half_open")


async def test_refill_continues_while_bots_wait_for_the_pace(stage: Stage) -> None:
    replica = await stage.replica(paced(3))
    await hot_slots(stage, replica)
    bots = await admit(replica, 4)
    await keep(stage, replica)
    assert stage.statuses(*bots)[2:] == ["QUEUED", "QUEUED"]
    idle = [slot["standby"] for slot in stage.slots() if slot["status"] == "idle"]
    assert sorted(idle) == ["ready", "starting", "starting"]


async def test_refill_continues_while_bots_wait_for_their_quota(stage: Stage) -> None:
    stage.rows("UPDATE tenants SET max_live = 1")
    replica = await stage.replica(hot_pool(2))
    await hot_slots(stage, replica)
    bots = await admit(replica, 2)
    await replica.queue_poller.poll()
    assert stage.statuses(*bots) == ["DEPLOYING", "QUEUED"]
    await keep(stage, replica)
    idle = [slot["standby"] for slot in stage.slots() if slot["status"] == "idle"]
    assert sorted(idle) == ["ready", "starting"]
