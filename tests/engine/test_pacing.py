"""Pacing: permits before starts, a pace that follows blocks, and the circuit breaker."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from botpool.domain.bot_ending import BotEnding
from botpool.domain.ids import AssignmentId, BotId, PoolName
from botpool.domain.pacing import Pacing
from botpool.domain.pools import PoolSpec
from botpool.domain.states import BotStatus, EndReason, FailureCode
from botpool.engine.replica import Replica
from tests.support.invariants import assert_invariants
from tests.support.replicas import MEET, TEAMS, Stage, bot_request, pool

SLOW = Pacing(
    egress="office",
    per_minute=6,
    burst=2,
    pause_after_blocks=3,
    pause_s=300,
    recover_s=1000,
)
BLOCKED = BotEnding(status=BotStatus.FAILED, reason="captcha", failure_code=FailureCode.BLOCKED)


@pytest.fixture(autouse=True)
def known_image(stage: Stage) -> None:
    """No test waits for the pull of an image."""
    stage.rows("INSERT INTO known_images VALUES ('process', 'here', 'demo', 'infinity')")


def paced(max_size: int, pool_name: PoolName = MEET, **changes: Any) -> PoolSpec:
    return replace(pool(max_size, pool_name), pacing=replace(SLOW, **changes))


async def admit(replica: Replica, bots: int, pool_name: PoolName = MEET) -> list[BotId]:
    request = bot_request(pool_name, queue_timeout_ms=3_600_000)
    return [(await replica.admission.admit(request)).bot.id for _ in range(bots)]


async def work(stage: Stage, replica: Replica) -> None:
    """Poll and step until nothing changes, as the loops of a replica do."""
    before = None
    while before != (before := stage.slots()):
        await replica.queue_poller.poll()
        while await stage.step(replica):
            pass


def starts(stage: Stage) -> int:
    return len(stage.backend.runs)


def egress(stage: Stage) -> dict[str, Any]:
    (row,) = stage.rows("SELECT *, botpool_pace(e) AS pace_now FROM egresses e")
    return row


def breaker_history(stage: Stage) -> list[tuple[str, str]]:
    rows = stage.rows("SELECT from_state, to_state FROM history WHERE kind = 'egress.breaker'")
    return [(row["from_state"], row["to_state"]) for row in rows]


async def block(stage: Stage, replica: Replica, bot_id: BotId) -> None:
    assignment_id = AssignmentId(stage.slot_of(bot_id)["assignment_id"])
    assert await replica.bot_endings.end(assignment_id, BLOCKED)


async def report(stage: Stage, replica: Replica, bot_id: BotId, status: BotStatus) -> None:
    assignment_id = AssignmentId(stage.slot_of(bot_id)["assignment_id"])
    assert await replica.agents.report(assignment_id, bot_id, status, None)


async def open_breaker(stage: Stage, replica: Replica) -> list[BotId]:
    """Block as many bots as the breaker allows in a row; return the bots that still wait."""
    bots = await admit(replica, 8)
    for _ in range(2):
        await work(stage, replica)
        stage.clock.move(60)
    for bot_id in bots[:3]:
        await block(stage, replica, bot_id)
    return bots[3:]


async def test_bots_start_at_the_pace_after_a_burst(stage: Stage) -> None:
    replica = await stage.replica(paced(20))
    bots = await admit(replica, 6)
    await work(stage, replica)
    assert starts(stage) == 2, "the burst"
    assert stage.statuses(*bots) == ["DEPLOYING"] * 2 + ["QUEUED"] * 4
    for started in (3, 4, 5, 6):
        stage.clock.move(9)
        await work(stage, replica)
        assert starts(stage) == started - 1
        stage.clock.move(1.001)
        await work(stage, replica)
        assert starts(stage) == started
    assert_invariants(stage.url)


async def test_queued_bots_of_a_paced_pool_keep_their_order(stage: Stage) -> None:
    replica = await stage.replica(paced(20, burst=1))
    first, second = await admit(replica, 2)
    urgent = (await replica.admission.admit(bot_request(priority=1))).bot.id
    await work(stage, replica)
    stage.clock.move(10.1)
    await work(stage, replica)
    assert stage.statuses(first, second, urgent) == ["DEPLOYING", "QUEUED", "DEPLOYING"]


async def test_pools_with_one_egress_share_its_permits(stage: Stage) -> None:
    replica = await stage.replica(paced(5), paced(5, TEAMS))
    await admit(replica, 3)
    await admit(replica, 3, TEAMS)
    await work(stage, replica)
    assert starts(stage) == 2
    stage.clock.move(10.1)
    await work(stage, replica)
    assert starts(stage) == 3


async def test_replicas_share_the_permits(stage: Stage) -> None:
    first, second = [await stage.replica(paced(20)) for _ in range(2)]
    await admit(first, 5)
    await admit(second, 5)
    for replica in (first, second, first, second):
        await work(stage, replica)
    assert starts(stage) == 2


async def test_pool_without_pace_is_not_held_back(stage: Stage) -> None:
    replica = await stage.replica(paced(5), pool(5, TEAMS))
    await admit(replica, 5, TEAMS)
    await work(stage, replica)
    assert starts(stage) == 5


async def test_slot_that_lost_its_permit_to_a_block_waits_for_the_next(stage: Stage) -> None:
    """A slot that the matcher assigned waits in `waiting_for_start` and holds nothing."""
    replica = await stage.replica(paced(20))
    await admit(replica, 2)
    stage.rows("UPDATE egresses SET permits = 0, counted_at = botpool_now()")
    while await stage.step(replica):
        pass
    assert [slot["phase"] for slot in stage.slots()] == ["waiting_for_start"] * 2
    assert [slot["lease_owner"] for slot in stage.slots()] == [None] * 2
    stage.clock.move(10.1)
    await work(stage, replica)
    assert starts(stage) == 1


async def test_crash_after_the_permit_does_not_cost_a_second_one(stage: Stage) -> None:
    """The permit and the phase `starting` are one commit; another replica only starts."""
    killed = await stage.replica(paced(20))
    await admit(killed, 1)
    sent, _ = stage.backend.hold("start")
    while not sent.is_set():
        await killed.reconciler.run_due_steps()
        await asyncio.sleep(0.01)
    for task in list(killed.reconciler.under_way):
        task.cancel()
    stage.backend.release("start")
    spent = egress(stage)["permits"]
    successor = await stage.replica(paced(20))
    stage.clock.move(30)
    while await stage.step(successor):
        pass
    assert starts(stage) == 1
    assert egress(stage)["permits"] == spent == 1


async def test_block_halves_the_pace_and_time_restores_it(stage: Stage) -> None:
    replica = await stage.replica(paced(20))
    (bot_id,) = await admit(replica, 1)
    await work(stage, replica)
    await block(stage, replica, bot_id)
    assert egress(stage)["pace"] == 0.5
    stage.clock.move(250)
    assert egress(stage)["pace_now"] == pytest.approx(0.75)
    stage.clock.move(300)
    assert egress(stage)["pace_now"] == 1


async def test_report_of_an_agent_that_its_bot_is_blocked_lowers_the_pace(stage: Stage) -> None:
    replica = await stage.replica(paced(20))
    (bot_id,) = await admit(replica, 1)
    await work(stage, replica)
    assignment_id = AssignmentId(stage.slot_of(bot_id)["assignment_id"])
    for applied in (True, False):
        reported = await replica.agents.report(
            assignment_id, bot_id, BotStatus.FAILED, "captcha", EndReason.BLOCKED
        )
        assert reported is applied
    assert (egress(stage)["pace"], egress(stage)["blocks"]) == (0.5, 1), "counted once"
    assert stage.bot(bot_id)["failure_code"] == "blocked"
    (written,) = stage.rows("SELECT reason, data FROM history WHERE kind = 'egress.pace'")
    assert (written["reason"], written["data"]["perMinute"]) == ("a bot was blocked", 3)


async def test_paused_egress_is_reported(stage: Stage) -> None:
    replica = await stage.replica(paced(20))
    assert (await replica.readiness.state()).paused_egresses == {}
    await open_breaker(stage, replica)
    assert set((await replica.readiness.state()).paused_egresses) == {"office"}
    (shown,) = await replica.queries.pools(MEET)
    assert shown.pacing is not None
    assert (shown.pacing.breaker, shown.pacing.blocks_in_a_row) == ("open", 3)
    exported = (await replica.metrics_export.text()).decode()
    assert 'botpool_egress_paused{egress="office"} 1.0' in exported


async def test_bots_started_at_the_former_pace_lower_it_once(stage: Stage) -> None:
    replica = await stage.replica(paced(20))
    bots = await admit(replica, 2)
    await work(stage, replica)
    for bot_id in bots:
        stage.clock.move(0.001)
        await block(stage, replica, bot_id)
    assert egress(stage)["pace"] == pytest.approx(0.5, abs=0.001)
    assert egress(stage)["blocks"] == 2


async def test_admitted_bot_ends_the_row_of_blocks(stage: Stage) -> None:
    replica = await stage.replica(paced(20))
    bots = await admit(replica, 4)
    await work(stage, replica)
    stage.clock.move(60)
    await work(stage, replica)
    await block(stage, replica, bots[0])
    await block(stage, replica, bots[1])
    await report(stage, replica, bots[2], BotStatus.IN_WAITING_ROOM)
    await block(stage, replica, bots[3])
    assert (egress(stage)["breaker"], egress(stage)["blocks"]) == ("closed", 1)


async def test_breaker_opens_after_blocks_in_a_row_and_starts_nothing(stage: Stage) -> None:
    replica = await stage.replica(paced(20))
    waiting = await open_breaker(stage, replica)
    assert egress(stage)["breaker"] == "open"
    before = starts(stage)
    stage.clock.move(299)
    await work(stage, replica)
    assert starts(stage) == before
    queued = await admit(replica, 2)
    assert stage.statuses(*waiting, *queued) == ["DEPLOYING"] + ["QUEUED"] * 6
    assert_invariants(stage.url)


async def test_probe_that_is_admitted_closes_the_breaker_at_a_low_pace(stage: Stage) -> None:
    replica = await stage.replica(paced(20))
    await open_breaker(stage, replica)
    before = starts(stage)
    stage.clock.move(301)
    await work(stage, replica)
    assert starts(stage) == before + 1, "one probe"
    probe = egress(stage)["probe_assignment_id"]
    (bot,) = stage.rows("SELECT bot_id FROM assignments WHERE id = %s", probe)
    await report(stage, replica, bot["bot_id"], BotStatus.IN_CALL)
    assert egress(stage)["breaker"] == "closed"
    assert egress(stage)["pace"] == pytest.approx(0.1)
    assert breaker_history(stage) == [
        ("closed", "open"),
        ("open", "half_open"),
        ("half_open", "closed"),
    ]
    await work(stage, replica)
    assert starts(stage) == before + 2


async def test_blocked_probe_opens_the_breaker_for_twice_as_long(stage: Stage) -> None:
    replica = await stage.replica(paced(20))
    await open_breaker(stage, replica)
    stage.clock.move(301)
    await work(stage, replica)
    before = starts(stage)
    probe = egress(stage)["probe_assignment_id"]
    assert await replica.bot_endings.end(AssignmentId(probe), BLOCKED)
    stage.clock.move(599)
    await work(stage, replica)
    assert starts(stage) == before
    stage.clock.move(2)
    await work(stage, replica)
    assert starts(stage) == before + 1


async def test_probe_without_an_outcome_is_followed_by_another(stage: Stage) -> None:
    replica = await stage.replica(paced(20))
    await open_breaker(stage, replica)
    stage.clock.move(301)
    await work(stage, replica)
    before = starts(stage)
    probe = egress(stage)["probe_assignment_id"]
    (bot,) = stage.rows("SELECT bot_id FROM assignments WHERE id = %s", probe)
    await replica.bot_stopper.stop(bot["bot_id"])
    await stage.settle(replica)
    await work(stage, replica)
    assert starts(stage) == before + 1
    assert egress(stage)["probe_assignment_id"] != probe


async def test_late_block_of_an_earlier_bot_does_not_prolong_the_pause(stage: Stage) -> None:
    replica = await stage.replica(paced(20))
    bots = await admit(replica, 4)
    for _ in range(2):
        await work(stage, replica)
        stage.clock.move(60)
    for bot_id in bots[:3]:
        await block(stage, replica, bot_id)
    until = egress(stage)["probe_at"]
    stage.clock.move(100)
    await block(stage, replica, bots[3])
    assert egress(stage)["probe_at"] == until


async def test_bots_of_unpaced_pools_report_nothing(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    (bot_id,) = await admit(replica, 1)
    await work(stage, replica)
    await block(stage, replica, bot_id)
    assert stage.rows("SELECT egress FROM egresses") == []
    assert stage.bot(bot_id)["failure_code"] == "blocked"


async def test_refused_request_without_queueing_leaves_nothing(stage: Stage) -> None:
    replica = await stage.replica(paced(20, burst=1))
    await admit(replica, 1)
    with pytest.raises(Exception, match="slot"):
        await replica.admission.admit(bot_request(queue_timeout_ms=0))
    assert len(stage.rows("SELECT id FROM bots")) == 1
    assert len(stage.slots()) == 1, "the pool does not grow for bots that cannot start"


async def test_clock_that_was_set_back_delays_no_permit(stage: Stage) -> None:
    replica = await stage.replica(paced(20))
    await admit(replica, 3)
    await work(stage, replica)
    stage.clock.move(-3600)
    await replica.recovery.run()
    stage.clock.move(10.1)
    await work(stage, replica)
    assert starts(stage) == 3
