"""Rollouts with a replica that is killed in the middle of each step, or that is late."""

import asyncio

import pytest

from botpool.domain.observation import ContainerState
from botpool.domain.rollouts.records import RolloutState
from botpool.store.slot_leases import lease_slots
from tests.support.replaced_statements import changed
from tests.support.replicas import MEET, Stage, bot_request, pool
from tests.support.rollouts import LEASE_S, NEW, OLD, Canary, request


async def set_canary(stage: Stage, size: int = 10) -> Canary:
    return await Canary.set(stage, pool(size, image=OLD))


@pytest.mark.parametrize(
    ("call", "answer"),
    [("ensure", False), ("ensure", True), ("start", False), ("start", True), ("observe", True)],
)
async def test_pull_survives_its_replica(stage: Stage, call: str, answer: bool) -> None:
    canary = await set_canary(stage, 1)
    await canary.replica.rollouts.start(MEET, request())
    await canary.replica.rollout_controller.run()
    await canary.kill_during(call, answer=answer)
    assert await canary.state() is RolloutState.CANARY
    assert len(stage.backend.runs) == 1, "the image was pulled once"
    (slot,) = stage.slots()
    assert (slot["standby"], slot["claim_rank"], slot["image"]) == (None, 2, NEW)


@pytest.mark.parametrize("call", ["ensure", "start"])
async def test_run_keeps_its_revision_when_its_replica_is_killed(stage: Stage, call: str) -> None:
    canary = await set_canary(stage, 4)
    await canary.start()
    for _ in range(4):
        await canary.replica.admission.admit(bot_request())
    await canary.kill_during(call)
    assert canary.first_images().count(NEW) == 2
    (counted,) = stage.rows("SELECT assigned, new_runs FROM rollouts")
    assert counted == {"assigned": 4, "new_runs": 2}
    images = sorted(slot["image"] for slot in stage.slots())
    assert images == [OLD, OLD, NEW, NEW]


async def test_late_choice_changes_nothing(stage: Stage) -> None:
    canary = await set_canary(stage, 1)
    await canary.start(share=0.5)
    await canary.meet(1)
    await canary.replica.admission.admit(bot_request())
    (slot,) = await lease_slots(
        canary.replica.database, owner="late", lease_s=30, limit=1, backends=["process"]
    )
    late = canary.replica.reconciler.deployer.revision_choice
    assert (await late.choose(slot)).image == NEW
    assert (await late.choose(slot)).image == NEW
    assert stage.rows("SELECT assigned, new_runs FROM rollouts") == [{"assigned": 2, "new_runs": 1}]
    stage.clock.move(LEASE_S)
    await stage.settle(canary.replica)
    assert (await late.choose(slot)).image == OLD, "the slot has changed: no choice"
    await canary.replica.rollouts.roll_back(MEET)
    assert (await late.choose(slot)).image == OLD, "the rollout has ended"
    assert stage.rows("SELECT assigned, new_runs FROM rollouts") == [{"assigned": 2, "new_runs": 1}]


async def crash(stage: Stage, canary: Canary) -> None:
    """Let the containers of the new image die a minute after their start."""
    stage.clock.move(60)
    for slot in stage.slots():
        if slot["status"] == "busy" and slot["image"] == NEW:
            stage.backend.exit(slot["container_id"], 1)
    await stage.settle(canary.replica)


BROKEN = {"does not start": ContainerState.ERROR, "starts slowly": ContainerState.STARTING}


@pytest.mark.parametrize("fault", [*BROKEN, "crashes after a minute"])
async def test_bad_image_is_rolled_back_although_replicas_are_killed(
    stage: Stage, fault: str
) -> None:
    canary = await set_canary(stage, 20)
    await canary.meet(20)
    await canary.meet(20)
    await canary.replica.rollouts.start(MEET, request(share=0.1))
    await canary.replica.rollout_controller.run()
    await canary.kill_during("start")
    if fault in BROKEN:
        stage.backend.states_of_images[NEW] = BROKEN[fault]
    for bots in (10, 15, 15):
        for _ in range(bots):
            await canary.replica.admission.admit(bot_request())
        if bots == 10:
            await canary.kill_during("ensure")
        await stage.settle(canary.replica)
        if fault == "crashes after a minute":
            await crash(stage, canary)
        live = [row["id"] for row in stage.rows("SELECT id FROM bots WHERE ended_at IS NULL")]
        await canary.attend(*live)
    canary.replica = await stage.replica(canary.spec)
    # The kill delayed bots of both revisions: a slow start takes longer than these.
    await canary.step(200)
    rollout = await canary.rollout()
    assert rollout.state is RolloutState.ROLLED_BACK, rollout
    images = canary.first_images()[40:]
    assert len(images) == 40 and images.count(NEW) == 4
    assert canary.pool_image() == OLD


async def test_good_image_is_promoted_although_replicas_are_killed(stage: Stage) -> None:
    canary = await set_canary(stage)
    await canary.replica.rollouts.start(MEET, request())
    await canary.replica.rollout_controller.run()
    await canary.kill_during("start", answer=True)
    for wave in range(8):
        if wave in (2, 5):
            for _ in range(10):
                await canary.replica.admission.admit(bot_request())
            await canary.kill_during("start")
            live = [row["id"] for row in stage.rows("SELECT id FROM bots WHERE ended_at IS NULL")]
            await canary.attend(*live)
        else:
            await canary.meet(10)
    stage.clock.move(600)
    with (
        changed("end_rollout", {"WHERE r.id = former.id": "WHERE r.id = former.id / 0"}),
        pytest.raises(Exception, match="division by zero"),
    ):
        await canary.replica.rollout_controller.run()
    assert await canary.state() is RolloutState.CANARY, "the replica died before the commit"
    canary.replica = await stage.replica(canary.spec)
    await canary.step()
    assert await canary.state() is RolloutState.PROMOTED
    assert canary.pool_image() == NEW


async def test_one_of_two_replicas_ends_the_rollout(stage: Stage) -> None:
    canary = await set_canary(stage, 20)
    await canary.start(share=0.1)
    stage.backend.states_of_images[NEW] = ContainerState.ERROR
    await canary.meet(20)
    other = await stage.replica(canary.spec)
    stage.clock.move(10)
    await asyncio.gather(
        canary.replica.rollout_controller.run(),
        other.rollout_controller.run(),
        canary.replica.rollouts.roll_back(MEET),
        return_exceptions=True,
    )
    ends = stage.rows(
        "SELECT to_state FROM history WHERE kind = 'pool.rollout' AND to_state = 'rolled_back'"
    )
    assert len(ends) == 1


async def test_shutdown_stops_the_pull_and_another_start_repeats_it(stage: Stage) -> None:
    canary = await set_canary(stage, 1)
    stage.backend.states_of_images[NEW] = ContainerState.STARTING
    await canary.start()
    assert await canary.replica.standby_keeper.stop_all() == 1, "it is not over yet"
    await stage.settle(canary.replica)
    (container,) = stage.backend.containers.values()
    assert container.state is ContainerState.STOPPED
    del stage.backend.states_of_images[NEW]
    await canary.step()
    assert await canary.state() is RolloutState.CANARY
    assert stage.rows("SELECT pull_failures FROM rollouts") == [{"pull_failures": 0}]
