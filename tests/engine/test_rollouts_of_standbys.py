"""Rollouts in pools with hot slots, with digests and with deployments."""

import pytest

from botpool.domain.observation import ContainerState, DeploymentState
from botpool.domain.rollouts.records import RolloutState
from botpool.domain.warm import Warm
from botpool.engine.lifecycle import image_digests
from tests.engine.test_image_digests import ResolvingBackend
from tests.support.replicas import MEET, Stage, bot_request, pool
from tests.support.rollouts import NEW, OLD, Canary, request
from tests.support.standbys import StandbyAgent, keep


async def open_standbys(stage: Stage, canary: Canary) -> list[StandbyAgent]:
    """Start the missing standbys and let their agents poll."""
    agents = list[StandbyAgent]()
    while True:
        await keep(stage, canary.replica)
        starting = [
            slot
            for slot in stage.slots()
            if slot["standby"] == "starting" and slot["start_issued_at"]
        ]
        if not starting:
            return agents
        for slot in starting:
            agents.append(StandbyAgent(canary.replica, slot))
            await agents[-1].open(stage)


def standbys(stage: Stage) -> list[tuple[str, str]]:
    return sorted((each["image"], each["standby"]) for each in stage.slots() if each["standby"])


async def test_standbys_keep_the_share_and_a_rollback_stops_only_the_new_ones(
    stage: Stage,
) -> None:
    canary = await Canary.set(stage, pool(5, image=OLD, warm=Warm(hot=2)))
    agents = await open_standbys(stage, canary)
    await canary.start(share=0.5)
    assert standbys(stage) == [(OLD, "ready")] * 2, "old standbys keep serving"
    for expected in ([(OLD, "ready")] * 2, [(OLD, "ready"), (NEW, "ready")]):
        bot = (await canary.replica.admission.admit(bot_request())).bot.id
        agent = next(each for each in agents if each.slot_id == stage.slot_of(bot)["id"])
        assert not await agent.accept(await agent.answer())
        await canary.step()
        agents += await open_standbys(stage, canary)
        assert standbys(stage) == expected
    assert canary.first_images() == [OLD, OLD], "a standby gets no more than its later share"
    await canary.replica.rollouts.roll_back(MEET)
    assert standbys(stage) == [(OLD, "ready"), (NEW, "stopping")]


async def test_pull_in_a_pool_of_hot_slots_stops_one_of_them(stage: Stage) -> None:
    canary = await Canary.set(stage, pool(2, image=OLD, warm=Warm(hot=2)))
    await open_standbys(stage, canary)
    await canary.replica.rollouts.start(MEET, request())
    await canary.replica.rollout_controller.run()
    assert standbys(stage) == [(OLD, "ready"), (OLD, "stopping")]
    waits_for = "the stop of a hot slot, in which the image is pulled: no other slot is free"
    assert (await canary.rollout()).waits_for == waits_for
    stage.clock.move(5)
    await canary.replica.rollout_controller.run()
    assert standbys(stage) == [(OLD, "ready"), (OLD, "stopping")], "one is enough"
    assert (await canary.rollout()).waits_for == waits_for
    await keep(stage, canary.replica)
    assert standbys(stage) == [(OLD, "ready")], "the free slot is left for the pull"
    await canary.step()
    assert await canary.state() is RolloutState.CANARY
    await open_standbys(stage, canary)
    assert standbys(stage) == [(OLD, "ready")] * 2


async def test_pull_survives_its_replica_between_the_stop_of_a_hot_slot_and_the_pull(
    stage: Stage,
) -> None:
    canary = await Canary.set(stage, pool(1, image=OLD, warm=Warm(hot=1)))
    await open_standbys(stage, canary)
    await canary.replica.rollouts.start(MEET, request())
    await canary.replica.rollout_controller.run()
    await canary.kill_during("stop")
    await keep(stage, canary.replica)
    await canary.step()
    assert await canary.state() is RolloutState.CANARY


async def test_rollback_after_the_promotion_stops_the_standbys_of_the_new_image(
    stage: Stage,
) -> None:
    """They are hot, so the next bots would get the image that was rolled back."""
    canary = await Canary.set(stage, pool(5, image=OLD, warm=Warm(hot=2)))
    await canary.start()
    await canary.replica.rollouts.promote(MEET)
    await open_standbys(stage, canary)
    assert standbys(stage) == [(NEW, "ready")] * 2
    await canary.replica.rollouts.roll_back(MEET)
    assert standbys(stage) == [(NEW, "stopping")] * 2


async def test_poll_of_a_pulled_container_gets_no_bot(stage: Stage) -> None:
    canary = await Canary.set(stage, pool(1, image=OLD, warm=Warm(hot=1)))
    stage.backend.states_of_images[NEW] = ContainerState.STARTING
    stage.rows("UPDATE pools SET warm = '{}'")
    await canary.start()
    (slot,) = stage.slots()
    agent = StandbyAgent(canary.replica, slot)
    await agent.open(stage)
    assert (await agent.answer()).should_exit
    assert stage.slots()[0]["standby"] == "pulling"


async def test_revision_has_the_digest_that_was_pulled(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_digests, "_VALID_S", -1.0)
    backend = stage.backend = ResolvingBackend()
    canary = await Canary.set(stage, pool(4, image=OLD))
    await canary.meet(1)
    backend.digest = "sha256:new"
    await canary.start()
    backend.digest = "sha256:later"
    bots = await canary.admit(4)
    images = sorted(canary.image_of(bot) for bot in bots)
    assert images == [f"{OLD}@sha256:old"] * 2 + [f"{NEW}@sha256:new"] * 2
    await canary.replica.rollouts.promote(MEET)
    assert canary.pool_image() == f"{NEW}@sha256:new"


@pytest.mark.parametrize("ends", [DeploymentState.FINISHED, DeploymentState.FAILED])
async def test_pull_on_a_backend_with_deployments_ends_with_its_deployment(
    stage: Stage, ends: DeploymentState
) -> None:
    stage.backend.has_deployments = True
    canary = await Canary.set(stage, pool(1, image=OLD))
    await canary.start()
    assert await canary.state() is RolloutState.PULLING
    (slot,) = stage.slots()
    stage.backend.finish(slot["container_id"], ends)
    await stage.settle(canary.replica)
    is_finished = ends is DeploymentState.FINISHED
    expected = RolloutState.CANARY if is_finished else RolloutState.PULLING
    assert await canary.state() is expected
    (counted,) = stage.rows("SELECT pull_failures FROM rollouts")
    assert counted == {"pull_failures": 0 if is_finished else 1}


async def test_pull_takes_no_slot_of_a_booking_and_cancels_none(stage: Stage) -> None:
    canary = await Canary.set(stage, pool(2, image=OLD))
    bots = await canary.meet(2)
    assert len(bots) == 2
    stage.rows(
        "UPDATE bot_pool_slots SET held = true, version = version + 1 WHERE number = 1",
    )
    await canary.replica.rollouts.start(MEET, request())
    await canary.replica.rollout_controller.run()
    pulling = [slot["number"] for slot in stage.slots() if slot["standby"] == "pulling"]
    assert pulling == [2]
    stage.rows("UPDATE bot_pool_slots SET held = false, version = version + 1")
