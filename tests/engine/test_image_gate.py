"""The image gate: one pull per image, a durable leader, and a limit of waiting.

The scripted backend behaves like Coolify: a start has a deployment, which the test ends.
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
from tests.support.replicas import MEET, TEAMS, Stage, bot_request, pool

ONCE = Policy(deploy_attempts=1)


@pytest.fixture(autouse=True)
def coolify_like(stage: Stage) -> None:
    stage.backend.has_deployments = True


async def admit(replica: Replica, bots: int, pool_name: PoolName = MEET) -> list[BotId]:
    return [(await replica.admission.admit(bot_request(pool_name))).bot.id for _ in range(bots)]


async def deploy(
    stage: Stage, replica: Replica, bots: int, pool_name: PoolName = MEET
) -> list[BotId]:
    """Admit bots; the first one leads, and the others arrive after it has passed the gate."""
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
async def test_one_slot_leads_and_the_others_pass_together(stage: Stage, bots: int) -> None:
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


async def test_start_with_a_known_image_never_waits(stage: Stage) -> None:
    replica = await stage.replica(pool(3))
    await deploy(stage, replica, 1)
    await finish(stage, replica, "pool-google-meet-001")
    await deploy(stage, replica, 2)
    assert len(stage.backend.runs) == 3
    phases_written = stage.rows(
        "SELECT to_state FROM history WHERE kind = 'slot.phase' AND slot_id > 1"
    )
    assert {row["to_state"] for row in phases_written} == {"starting"}


async def test_image_is_known_even_if_the_container_dies(stage: Stage) -> None:
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


async def test_image_is_forgotten_a_day_after_its_last_start(stage: Stage) -> None:
    replica = await stage.replica(pool(3))
    await deploy(stage, replica, 1)
    await finish(stage, replica, "pool-google-meet-001")
    stage.clock.move(86_401)
    await deploy(stage, replica, 2)
    assert phases(stage)[1:] == ["starting", "waiting_for_image"]
    assert leaders(stage) == ["pool-google-meet-002"]


@pytest.mark.parametrize("end", [DeploymentState.FAILED, DeploymentState.CANCELLED])
async def test_next_slot_leads_when_the_leader_fails(stage: Stage, end: DeploymentState) -> None:
    replica = await stage.replica(pool(3), policy=ONCE)
    bots = await deploy(stage, replica, 3)
    await finish(stage, replica, "pool-google-meet-001", end)
    assert leaders(stage) == ["pool-google-meet-002"]
    await steps(stage, replica)
    assert phases(stage) == [None, "starting", "waiting_for_image"]
    assert stage.statuses(*bots) == ["FAILED", "DEPLOYING", "DEPLOYING"]
    assert_invariants(stage.url)


async def test_next_slot_leads_when_the_leader_times_out(stage: Stage) -> None:
    policy = Policy(deploy_attempts=1, deploy_wait_timeout_s=7200)
    replica = await stage.replica(pool(2), policy=policy)
    await deploy(stage, replica, 2)
    stage.clock.move(1501)
    await steps(stage, replica)
    assert leaders(stage) == ["pool-google-meet-002"]


async def test_next_slot_leads_when_the_stop_of_the_leader_is_confirmed(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(2))
    first, second = await deploy(stage, replica, 2)
    await replica.bot_stopper.stop(first)
    assert leaders(stage) == ["pool-google-meet-001"], "its pull may still be in progress"
    await steps(stage, replica)
    assert leaders(stage) == ["pool-google-meet-002"]
    assert stage.statuses(first, second) == ["CANCELLED", "DEPLOYING"]


async def test_next_slot_leads_when_a_waiting_leader_is_stopped(stage: Stage) -> None:
    stage.backend.concurrent_starts = 0
    replica = await stage.replica(pool(2))
    first, _ = await deploy(stage, replica, 2)
    assert phases(stage) == ["waiting_for_start", "waiting_for_image"]
    await replica.bot_stopper.stop(first)
    await steps(stage, replica)
    assert leaders(stage) == ["pool-google-meet-002"]
    assert stage.backend.calls_of("stop") == [], "no container of it was started"


async def test_waiting_slot_fails_after_the_limit(stage: Stage) -> None:
    replica = await stage.replica(pool(2), policy=Policy(deploy_attempts=1, deploy_timeout_s=9000))
    _, second = await deploy(stage, replica, 2)
    stage.clock.move(1799)
    await steps(stage, replica)
    assert stage.statuses(second) == ["DEPLOYING"]
    stage.clock.move(2)
    await steps(stage, replica)
    assert stage.bot(second)["failure_reason"] == "waiting for image for more than 1800 s"


async def test_another_replica_continues_with_the_same_leader(stage: Stage) -> None:
    """A replica killed between start and commit causes no second pull and no new leader."""
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


async def test_concurrent_replicas_choose_one_leader(stage: Stage) -> None:
    replicas = [await stage.replica(pool(20)) for _ in range(4)]
    await admit(replicas[0], 20)
    await asyncio.gather(*(stage.step(replica) for replica in replicas))
    await asyncio.gather(*(replica.image_gate.open("process") for replica in replicas))
    for replica in replicas:
        await steps(stage, replica)
    assert len(leaders(stage)) == 1
    assert len(stage.backend.runs) == 1


async def test_database_refuses_a_second_leader(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    await deploy(stage, replica, 2)
    with pytest.raises(psycopg.errors.UniqueViolation):
        stage.rows(
            "UPDATE bot_pool_slots SET leads_image = 'demo', version = version + 1 "
            "WHERE slot_name = 'pool-google-meet-002'"
        )


async def test_different_images_and_tags_are_pulled_in_parallel(stage: Stage) -> None:
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


async def test_agent_call_ends_the_pull(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    first, _ = await deploy(stage, replica, 2)
    slot = stage.slot_of(first)
    await replica.agents.report(slot["assignment_id"], first, BotStatus.IN_CALL, None)
    await steps(stage, replica)
    assert len(stage.backend.runs) == 2


async def test_poll_opens_the_gate_after_a_missed_wakeup(stage: Stage) -> None:
    """The process died after the end of the leader's deployment, before it opened the gate."""
    replica = await stage.replica(pool(2))
    await deploy(stage, replica, 2)
    stage.rows("INSERT INTO known_images VALUES ('process', 'here', 'demo', botpool_now())")
    await steps(stage, replica)
    assert len(stage.backend.runs) == 1
    await replica.queue_poller.poll()
    await steps(stage, replica)
    assert len(stage.backend.runs) == 2


async def test_history_records_the_leader_and_the_waiting_slots(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    first, second = await deploy(stage, replica, 2)
    await finish(stage, replica, "pool-google-meet-001")

    def phases_of(bot_id: BotId) -> list[tuple[str, str, Any]]:
        rows = stage.rows(
            "SELECT to_state, reason, data FROM history "
            "WHERE kind = 'slot.phase' AND bot_id = %s ORDER BY id",
            bot_id,
        )
        return [(row["to_state"], row["reason"], (row["data"] or {}).get("leads")) for row in rows]

    created, allowed = (
        ("waiting_for_image", "the container was created", None),
        "the start is allowed",
    )
    assert phases_of(first) == [
        created,
        ("waiting_for_start", "leads the pull of its image", True),
        ("starting", allowed, None),
    ]
    assert phases_of(second) == [
        created,
        ("waiting_for_start", "the image is present", False),
        ("starting", allowed, None),
    ]


async def test_concurrent_deployments_stay_within_the_limit(stage: Stage) -> None:
    stage.backend.concurrent_starts = 2
    replica = await stage.replica(pool(5))
    await deploy(stage, replica, 5)
    await finish(stage, replica, "pool-google-meet-001")
    await steps(stage, replica)
    assert phases(stage) == ["starting"] * 3 + ["waiting_for_start"] * 2
    assert len(stage.backend.runs) == 3, "the deployment of the first slot has finished"
    await finish(stage, replica, "pool-google-meet-002")
    await steps(stage, replica)
    assert len(stage.backend.runs) == 4
    assert_invariants(stage.url)


async def test_cluster_lets_as_many_slots_lead_as_nodes_may_pull_at_once(stage: Stage) -> None:
    stage.backend.concurrent_pulls = 2
    replica = await stage.replica(pool(5), policy=ONCE)
    bots = await deploy(stage, replica, 5)
    assert len(leaders(stage)) == 2
    assert phases(stage).count("waiting_for_image") == 3
    assert sorted(slot["leads_number"] for slot in stage.slots() if slot["leads_image"]) == [1, 2]
    failed = slot_named(stage, leaders(stage)[0])
    stage.backend.finish(failed["container_id"], DeploymentState.FAILED)
    await replica.observer.observe("process")
    assert len(leaders(stage)) == 2, "the next slot leads"
    for leader in leaders(stage):
        stage.backend.finish(slot_named(stage, leader)["container_id"])
    await replica.observer.observe("process")
    await steps(stage, replica)
    assert phases(stage).count("waiting_for_image") == 0
    assert len(bots) == 5
    assert_invariants(stage.url)
