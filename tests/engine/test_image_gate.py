"""The image gate: one pull for all who want an image, a leader that is carried on, nobody for ever.

The backend here is like Coolify: a start has a deployment, which the test ends as it likes.
"""

import asyncio
from typing import Any

import psycopg
import pytest

from botpool.domain.ids import BotId, PoolName
from botpool.domain.observation import ContainerState, DeploymentState
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from botpool.engine.replica import Replica
from tests.support.invariants import assert_invariants
from tests.support.replicas import MEET, TEAMS, Stage, pool, wish

ONCE = Policy(deploy_attempts=1)


@pytest.fixture(autouse=True)
def coolify_like(stage: Stage) -> None:
    stage.backend.has_deployments = True


async def admit(replica: Replica, bots: int, pool_name: PoolName = MEET) -> list[BotId]:
    return [(await replica.admission.admit(wish(pool_name))).bot.id for _ in range(bots)]


async def deploy(
    stage: Stage, replica: Replica, bots: int, pool_name: PoolName = MEET
) -> list[BotId]:
    """The first one leads: the others come after it has passed the gate."""
    first = await admit(replica, 1, pool_name)
    await steps(stage, replica)
    others = await admit(replica, bots - 1, pool_name)
    await steps(stage, replica)
    return first + others


async def steps(stage: Stage, replica: Replica) -> None:
    while await stage.step(replica):
        pass


def phases(stage: Stage) -> list[str | None]:
    return [slot["phase"] for slot in stage.slots()]


def leaders(stage: Stage) -> list[str]:
    return [slot["slot_name"] for slot in stage.slots() if slot["leads_image"]]


def slot_named(stage: Stage, name: str) -> dict[str, Any]:
    (slot,) = [slot for slot in stage.slots() if slot["slot_name"] == name]
    return slot


async def finish(
    stage: Stage, replica: Replica, name: str, state: DeploymentState = DeploymentState.FINISHED
) -> None:
    stage.backend.finish(slot_named(stage, name)["container_id"], state)
    await replica.observer.observe("process")


@pytest.mark.parametrize("bots", [3, 30])
async def test_one_leads_and_the_others_are_let_go_together(stage: Stage, bots: int) -> None:
    replica = await stage.replica(pool(bots))
    await deploy(stage, replica, bots)
    assert len(stage.backend.runs) == 1
    assert phases(stage) == ["starting"] + ["waiting_for_image"] * (bots - 1)
    await finish(stage, replica, "pool-google-meet-001")
    assert phases(stage) == ["starting"] * bots
    await steps(stage, replica)
    assert len(stage.backend.runs) == bots
    assert leaders(stage) == []
    assert_invariants(stage.url)


async def test_a_known_image_never_waits(stage: Stage) -> None:
    replica = await stage.replica(pool(3))
    await deploy(stage, replica, 1)
    await finish(stage, replica, "pool-google-meet-001")
    await deploy(stage, replica, 2)
    assert len(stage.backend.runs) == 3
    told = stage.rows("SELECT to_state FROM history WHERE kind = 'slot.phase' AND slot_id > 1")
    assert {row["to_state"] for row in told} == {"starting"}


async def test_the_image_is_known_even_if_the_container_dies(stage: Stage) -> None:
    replica = await stage.replica(pool(2), policy=ONCE)
    first, _ = await deploy(stage, replica, 2)
    await finish(stage, replica, "pool-google-meet-001")
    stage.backend.show(
        slot_named(stage, "pool-google-meet-001")["container_id"], ContainerState.ERROR
    )
    await replica.observer.observe("process")
    await steps(stage, replica)
    assert stage.statuses(first) == ["FAILED"]
    assert len(stage.backend.runs) == 2


async def test_known_is_forgotten_a_day_after_the_last_start(stage: Stage) -> None:
    replica = await stage.replica(pool(3))
    await deploy(stage, replica, 1)
    await finish(stage, replica, "pool-google-meet-001")
    stage.clock.move(86_401)
    await deploy(stage, replica, 2)
    assert phases(stage)[1:] == ["starting", "waiting_for_image"]
    assert leaders(stage) == ["pool-google-meet-002"]


@pytest.mark.parametrize("end", [DeploymentState.FAILED, DeploymentState.CANCELLED])
async def test_a_leader_that_fails_is_followed_by_the_next(
    stage: Stage, end: DeploymentState
) -> None:
    replica = await stage.replica(pool(3), policy=ONCE)
    bots = await deploy(stage, replica, 3)
    await finish(stage, replica, "pool-google-meet-001", end)
    assert leaders(stage) == ["pool-google-meet-002"]
    await steps(stage, replica)
    assert phases(stage) == [None, "starting", "waiting_for_image"]
    assert stage.statuses(*bots) == ["FAILED", "DEPLOYING", "DEPLOYING"]
    assert_invariants(stage.url)


async def test_a_leader_that_times_out_is_followed_by_the_next(stage: Stage) -> None:
    policy = Policy(deploy_attempts=1, deploy_wait_timeout_s=7200)
    replica = await stage.replica(pool(2), policy=policy)
    await deploy(stage, replica, 2)
    stage.clock.move(1501)
    await steps(stage, replica)
    assert leaders(stage) == ["pool-google-meet-002"]


async def test_a_leader_that_is_stopped_is_followed_when_its_stop_is_confirmed(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(2))
    first, second = await deploy(stage, replica, 2)
    await replica.bot_stopper.stop(first)
    assert leaders(stage) == ["pool-google-meet-001"], "its pull may still be under way"
    await steps(stage, replica)
    assert leaders(stage) == ["pool-google-meet-002"]
    assert stage.statuses(first, second) == ["CANCELLED", "DEPLOYING"]


async def test_a_leader_that_waits_for_its_start_is_stopped(stage: Stage) -> None:
    stage.backend.concurrent_starts = 0
    replica = await stage.replica(pool(2))
    first, _ = await deploy(stage, replica, 2)
    assert phases(stage) == ["waiting_for_start", "waiting_for_image"]
    await replica.bot_stopper.stop(first)
    await steps(stage, replica)
    assert leaders(stage) == ["pool-google-meet-002"]
    assert stage.backend.made("stop") == [], "nothing of it was ever started"


async def test_nobody_waits_longer_than_the_limit(stage: Stage) -> None:
    replica = await stage.replica(pool(2), policy=Policy(deploy_attempts=1, deploy_timeout_s=9000))
    _, second = await deploy(stage, replica, 2)
    stage.clock.move(1799)
    await steps(stage, replica)
    assert stage.statuses(second) == ["DEPLOYING"]
    stage.clock.move(2)
    await steps(stage, replica)
    assert stage.bot(second)["failure_reason"] == "waiting for image for more than 1800 s"


async def test_another_replica_carries_the_same_leader_on(stage: Stage) -> None:
    """Killed after the start was sent, before that was committed: no second pull, no new leader."""
    killed = await stage.replica(pool(3))
    await admit(killed, 3)
    sent, _ = stage.backend.hold_answer("start")
    while not sent.is_set() or len(killed.reconciler.under_way) > 1:
        await killed.reconciler.run_due_steps()
        await asyncio.sleep(0.01)
    for task in list(killed.reconciler.under_way):
        task.cancel()
    led = leaders(stage)
    assert len(led) == 1
    successor = await stage.replica(pool(3))
    stage.clock.move(30)
    await steps(stage, successor)
    await successor.queue_poller.poll()
    await steps(stage, successor)
    assert leaders(stage) == led
    assert len(stage.backend.runs) == 1
    await finish(stage, successor, led[0])
    await steps(stage, successor)
    assert len(stage.backend.runs) == 3


async def test_replicas_that_open_the_gate_at_once_make_one_leader(stage: Stage) -> None:
    replicas = [await stage.replica(pool(20)) for _ in range(4)]
    await admit(replicas[0], 20)
    await asyncio.gather(*(stage.step(replica) for replica in replicas))
    await asyncio.gather(*(replica.image_gate.open("process") for replica in replicas))
    for replica in replicas:
        await steps(stage, replica)
    assert len(leaders(stage)) == 1
    assert len(stage.backend.runs) == 1


async def test_the_database_refuses_a_second_leader(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    await deploy(stage, replica, 2)
    with pytest.raises(psycopg.errors.UniqueViolation):
        stage.rows(
            "UPDATE bot_pool_slots SET leads_image = 'demo', version = version + 1 "
            "WHERE slot_name = 'pool-google-meet-002'"
        )


async def test_two_images_and_two_tags_pull_side_by_side(stage: Stage) -> None:
    replica = await stage.replica(
        pool(2, image="bot:1"), pool(2, TEAMS, image="bot:2"), pool(2, PoolName("zoom"), "other:1")
    )
    for pool_name in (MEET, TEAMS, PoolName("zoom")):
        await deploy(stage, replica, 2, pool_name)
    assert len(stage.backend.runs) == 3
    assert sorted(leaders(stage)) == [
        "pool-google-meet-001",
        "pool-teams-001",
        "pool-zoom-001",
    ]


async def test_pools_with_the_same_image_share_the_gate(stage: Stage) -> None:
    replica = await stage.replica(pool(2, image="bot:1"), pool(2, TEAMS, image="bot:1"))
    await deploy(stage, replica, 1)
    await deploy(stage, replica, 1, TEAMS)
    assert len(stage.backend.runs) == 1
    await finish(stage, replica, "pool-google-meet-001")
    await steps(stage, replica)
    assert len(stage.backend.runs) == 2


async def test_the_agents_call_ends_the_pull_too(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    first, _ = await deploy(stage, replica, 2)
    slot = stage.slot_of(first)
    await replica.agents.report(slot["assignment_id"], first, BotStatus.IN_CALL, None)
    await steps(stage, replica)
    assert len(stage.backend.runs) == 2


async def test_what_no_event_told_is_found_by_the_poll(stage: Stage) -> None:
    """The process died between the end of the leader's deployment and the opening of the gate."""
    replica = await stage.replica(pool(2))
    await deploy(stage, replica, 2)
    stage.rows("INSERT INTO known_images VALUES ('process', 'here', 'demo', botpool_now())")
    await steps(stage, replica)
    assert len(stage.backend.runs) == 1
    await replica.queue_poller.poll()
    await steps(stage, replica)
    assert len(stage.backend.runs) == 2


async def test_history_says_who_led_and_who_waited(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    first, second = await deploy(stage, replica, 2)
    await finish(stage, replica, "pool-google-meet-001")

    def told(bot_id: BotId) -> list[tuple[str, str, Any]]:
        rows = stage.rows(
            "SELECT to_state, reason, data FROM history "
            "WHERE kind = 'slot.phase' AND bot_id = %s ORDER BY id",
            bot_id,
        )
        return [(row["to_state"], row["reason"], (row["data"] or {}).get("leads")) for row in rows]

    made, through = (
        ("waiting_for_image", "the container was created", None),
        "the start is allowed",
    )
    assert told(first) == [
        made,
        ("waiting_for_start", "leads the pull of its image", True),
        ("starting", through, None),
    ]
    assert told(second) == [
        made,
        ("waiting_for_start", "the image is present", False),
        ("starting", through, None),
    ]


async def test_no_more_deployments_at_once_than_the_backend_takes(stage: Stage) -> None:
    stage.backend.concurrent_starts = 2
    replica = await stage.replica(pool(5))
    await deploy(stage, replica, 5)
    await finish(stage, replica, "pool-google-meet-001")
    await steps(stage, replica)
    assert phases(stage) == ["starting"] * 3 + ["waiting_for_start"] * 2
    assert len(stage.backend.runs) == 3, "the first one's deployment is over"
    await finish(stage, replica, "pool-google-meet-002")
    await steps(stage, replica)
    assert len(stage.backend.runs) == 4
    assert_invariants(stage.url)
