"""Rollouts of an image: the pull, the share, the comparison, promotion and rollback."""

import asyncio

import pytest

from botpool.domain.errors import BackendRefused, NotFound
from botpool.domain.ids import PoolName
from botpool.domain.observation import ContainerState
from botpool.domain.rollouts.errors import NoRollout, RolloutActive, SameRevision
from botpool.domain.rollouts.records import RolloutState
from botpool.domain.states import BotStatus
from botpool.engine.rollouts import controller
from botpool.store.rollouts import prune_rollouts
from tests.support.replicas import MEET, Stage, bot_request, pool
from tests.support.rollouts import NEW, OLD, Canary, request


async def set_canary(stage: Stage, size: int = 10) -> Canary:
    return await Canary.set(stage, pool(size, image=OLD))


async def test_image_is_pulled_before_a_bot_gets_it(stage: Stage) -> None:
    canary = await set_canary(stage)
    await canary.replica.rollouts.start(MEET, request())
    await canary.replica.rollout_controller.run()
    (slot,) = stage.slots()
    assert (slot["standby"], slot["claim_rank"], slot["status"]) == ("pulling", None, "idle")
    first = (await canary.replica.admission.admit(bot_request())).bot.id
    await stage.settle(canary.replica)
    assert canary.image_of(first) == OLD
    assert await canary.state() is RolloutState.CANARY
    assert stage.rows("SELECT image FROM known_images ORDER BY image") == [
        {"image": OLD},
        {"image": NEW},
    ]
    pulled = next(each for each in stage.slots() if each["id"] == slot["id"])
    assert (pulled["standby"], pulled["image"], pulled["claim_rank"]) == (None, NEW, 2)
    assert stage.backend.running == [stage.slot_of(first)["slot_name"]]


@pytest.mark.parametrize(("share", "expected"), [(0.05, 1), (0.29, 5), (0.5, 10)])
async def test_share_of_assignments_is_exact(stage: Stage, share: float, expected: int) -> None:
    canary = await set_canary(stage, 10)
    await canary.start(share=share)
    await canary.meet(10)
    assert canary.first_images().count(NEW) == int(10 * share)
    await canary.meet(10)
    assert canary.first_images().count(NEW) == expected
    (counted,) = stage.rows("SELECT assigned, new_runs FROM rollouts")
    assert counted == {"assigned": 20, "new_runs": expected}


async def test_share_is_never_exceeded_on_the_way(stage: Stage) -> None:
    canary = await set_canary(stage, 3)
    await canary.start(share=0.4)
    for bots in range(1, 11):
        await canary.meet(1)
        assert canary.first_images().count(NEW) == bots * 4 // 10


async def test_two_replicas_together_keep_the_share(stage: Stage) -> None:
    canary = await set_canary(stage, 20)
    await canary.start(share=0.1)
    other = await stage.replica(pool(20, image=OLD))
    for _ in range(20):
        await canary.replica.admission.admit(bot_request())
    await asyncio.gather(stage.settle(canary.replica), stage.settle(other))
    assert canary.first_images().count(NEW) == 2


async def test_good_image_is_promoted_and_survives_a_restart(stage: Stage) -> None:
    canary = await set_canary(stage)
    await canary.start()
    for _ in range(8):
        await canary.meet(10)
    await canary.step()
    rollout = await canary.rollout()
    assert rollout.state is RolloutState.CANARY
    assert rollout.waits_for is not None and rollout.waits_for.startswith("the bake time")
    assert canary.pool_image() == OLD
    await canary.step(600)
    rollout = await canary.rollout()
    assert rollout.state is RolloutState.PROMOTED
    assert rollout.reason is not None
    assert rollout.reason.startswith("After 40 bots of the new revision, no measure is worse")
    assert rollout.comparison is not None and rollout.comparison.sureness >= 0.95
    canary.replica = await stage.replica(pool(10, image=OLD))
    assert canary.pool_image() == NEW, "the settings file still names the old image"
    bots = await canary.admit(4)
    assert [canary.image_of(bot) for bot in bots] == [NEW] * 4
    await stage.replica(pool(10, image="bot:3"))
    assert canary.pool_image() == "bot:3", "a changed file wins"


async def test_good_image_with_few_bots_waits_and_says_how_many_it_needs(stage: Stage) -> None:
    canary = await set_canary(stage)
    await canary.start(bake_s=0.0)
    await canary.meet(10)
    await canary.step(600)
    rollout = await canary.rollout()
    assert rollout.state is RolloutState.CANARY and rollout.comparison is not None
    assert rollout.comparison.bots_needed >= 30
    assert rollout.waits_for is not None
    assert rollout.waits_for.startswith("more bots of the new revision: 0 of about")
    assert "slow starts" in rollout.waits_for, "the old revision has too few starts for a p95"


async def test_image_that_cannot_be_pulled_reaches_no_bot(stage: Stage) -> None:
    canary = await set_canary(stage)
    await canary.replica.rollouts.start(MEET, request())
    for attempt in range(3):
        assert await canary.state() is RolloutState.PULLING, attempt
        stage.backend.fail("start", BackendRefused("process", "no such image"))
        await canary.step(120)
    await canary.step()
    rollout = await canary.rollout()
    assert rollout.state is RolloutState.ROLLED_BACK
    assert rollout.reason == (
        "The new revision could not be pulled and started in 3 attempts: process: no such image"
    )
    await canary.meet(10)
    assert canary.first_images() == [OLD] * 10


async def test_image_that_does_not_start_is_rolled_back_within_its_share(stage: Stage) -> None:
    canary = await set_canary(stage, 20)
    await canary.start(share=0.1)
    stage.backend.states_of_images[NEW] = ContainerState.ERROR
    for _ in range(3):
        await canary.meet(20)
        await canary.step()
        if await canary.state() is RolloutState.ROLLED_BACK:
            break
    rollout = await canary.rollout()
    assert rollout.state is RolloutState.ROLLED_BACK
    assert rollout.reason is not None and "bots of the new revision did not start" in rollout.reason
    images = canary.first_images()
    assert images.count(NEW) <= 0.1 * len(images)
    await stage.settle(canary.replica)
    failed = stage.rows("SELECT status FROM bots WHERE status = 'FAILED'")
    assert not failed, "each bot was started again with the old revision"
    before = len(images)
    await canary.meet(10)
    assert canary.first_images()[before:] == [OLD] * 10


async def test_image_that_starts_slowly_is_rolled_back(stage: Stage) -> None:
    canary = await set_canary(stage, 20)
    for _ in range(3):
        await canary.meet(10)
    await canary.start(share=0.2)
    stage.backend.states_of_images[NEW] = ContainerState.STARTING
    for _ in range(3):
        await canary.meet(10)
    await canary.step(3)
    assert await canary.state() is RolloutState.CANARY, "not slower than the old revision yet"
    await canary.step(10)
    rollout = await canary.rollout()
    assert rollout.state is RolloutState.ROLLED_BACK
    assert rollout.reason is not None and "started slowly" in rollout.reason


async def test_image_whose_agent_calls_late_is_rolled_back(stage: Stage) -> None:
    """Its container runs at once, so that only the agent shows that the start is slow."""
    canary = await set_canary(stage, 20)
    for _ in range(3):
        await canary.meet(10)
    await canary.start(share=0.2)
    for _ in range(3):
        bots = await canary.admit(10)
        await canary.attend(*(bot for bot in bots if canary.image_of(bot) == OLD))
    stage.clock.move(3)
    await canary.step(0)
    assert await canary.state() is RolloutState.CANARY, "not slower than the old revision yet"
    await canary.step(10)
    rollout = await canary.rollout()
    assert rollout.state is RolloutState.ROLLED_BACK
    assert rollout.reason is not None
    assert "bots of the new revision started slowly, 0 of" in rollout.reason


async def test_comparison_reads_only_the_newest_assignments(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "MAX_ASSIGNMENTS", 6)
    canary = await set_canary(stage, 10)
    await canary.start(share=0.5)
    await canary.meet(10)
    await canary.step()
    rollout = await canary.rollout()
    assert rollout.comparison is not None
    assert rollout.comparison.old.assignments + rollout.comparison.new.assignments == 6
    await canary.meet(10)
    await canary.step()
    assert stage.rows("SELECT assigned, new_runs FROM rollouts") == [
        {"assigned": 20, "new_runs": 10}
    ], "the share counts all"


async def test_image_that_crashes_after_a_minute_is_rolled_back(stage: Stage) -> None:
    canary = await set_canary(stage, 20)
    await canary.start(share=0.1)
    bots = await canary.admit(20)
    stage.clock.move(60)
    crashed = [bot for bot in bots if canary.image_of(bot) == NEW]
    assert len(crashed) == 2
    for bot in crashed:
        stage.backend.exit(stage.slot_of(bot)["container_id"], 1)
    await canary.attend(*set(bots) - set(crashed))
    await canary.step()
    rollout = await canary.rollout()
    assert rollout.state is RolloutState.ROLLED_BACK
    assert rollout.reason is not None and "exited within 5 minutes" in rollout.reason


async def test_image_that_reaches_no_call_is_rolled_back(stage: Stage) -> None:
    canary = await set_canary(stage, 20)
    await canary.start(share=0.2)
    bots = await canary.admit(20)
    outside = [bot for bot in bots if canary.image_of(bot) == NEW]
    for bot in outside:
        await stage.end(canary.replica, bot)
    await canary.attend(*set(bots) - set(outside))
    await canary.step()
    rollout = await canary.rollout()
    assert rollout.state is RolloutState.ROLLED_BACK
    assert rollout.reason is not None and "did not reach the call" in rollout.reason


async def test_bots_in_calls_are_not_touched(stage: Stage) -> None:
    canary = await set_canary(stage, 4)
    await canary.start()
    bots = await canary.admit(4)
    for bot in bots:
        assignment = stage.slot_of(bot)["assignment_id"]
        assert await canary.replica.agents.report(assignment, bot, BotStatus.IN_CALL, None)
    runs = list(stage.backend.runs)
    await canary.replica.rollouts.promote(MEET)
    await stage.settle(canary.replica)
    await canary.replica.rollouts.roll_back(MEET)
    await stage.settle(canary.replica)
    assert stage.statuses(*bots) == ["IN_CALL"] * 4
    assert stage.backend.runs == runs and len(stage.backend.running) == 4


async def test_retry_of_a_bot_has_the_old_revision(stage: Stage) -> None:
    canary = await set_canary(stage, 4)
    await canary.start()
    stage.backend.states_of_images[NEW] = ContainerState.ERROR
    bots = await canary.admit(4)
    await stage.settle(canary.replica)
    assert stage.statuses(*bots) == ["JOINING_CALL"] * 4
    assert [canary.image_of(bot) for bot in bots] == [OLD] * 4
    assert canary.first_images().count(NEW) == 2


async def test_operator_promotes_and_returns_to_the_old_revision(stage: Stage) -> None:
    canary = await set_canary(stage)
    await canary.start()
    promoted = await canary.replica.rollouts.promote(MEET)
    assert (promoted.state, canary.pool_image()) == (RolloutState.PROMOTED, NEW)
    with pytest.raises(NoRollout):
        await canary.replica.rollouts.promote(MEET)
    back = await canary.replica.rollouts.roll_back(MEET)
    assert (back.state, canary.pool_image()) == (RolloutState.ROLLED_BACK, OLD)
    with pytest.raises(NoRollout):
        await canary.replica.rollouts.roll_back(MEET)


async def test_recovery_leaves_a_pull_of_minutes_alone(stage: Stage) -> None:
    """The deadline of a pull lies as far ahead as that of a deployment: it is no clock jump."""
    canary = await set_canary(stage)
    stage.backend.states_of_images[NEW] = ContainerState.STARTING
    await canary.start()
    before = stage.slots()
    assert [slot["standby"] for slot in before] == ["pulling"]
    await canary.replica.recovery.rescheduling.run()
    await stage.settle(canary.replica)
    assert stage.slots() == before
    assert stage.rows("SELECT pull_failures FROM rollouts") == [{"pull_failures": 0}]


async def test_rollback_during_the_pull_stops_the_container(stage: Stage) -> None:
    canary = await set_canary(stage)
    stage.backend.states_of_images[NEW] = ContainerState.STARTING
    await canary.start()
    assert await canary.state() is RolloutState.PULLING
    await canary.replica.rollouts.roll_back(MEET)
    await stage.settle(canary.replica)
    (slot,) = stage.slots()
    assert (slot["standby"], slot["status"]) == (None, "idle")
    (container,) = stage.backend.containers.values()
    assert container.state is ContainerState.STOPPED


async def test_rollout_has_one_start_and_needs_another_image(stage: Stage) -> None:
    canary = await set_canary(stage)
    with pytest.raises(SameRevision):
        await canary.replica.rollouts.start(MEET, request(OLD))
    with pytest.raises(NotFound):
        await canary.replica.rollouts.start(PoolName("nowhere"), request())
    with pytest.raises(NotFound):
        await canary.replica.rollouts.list(PoolName("nowhere"))
    started = await asyncio.gather(
        *(canary.replica.rollouts.start(MEET, request(f"bot:{number}")) for number in (2, 3)),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in started) == ["Rollout", "RolloutActive"]
    with pytest.raises(RolloutActive):
        await canary.replica.rollouts.start(MEET, request("bot:4"))


async def test_same_image_with_other_limits_is_a_revision(stage: Stage) -> None:
    canary = await set_canary(stage)
    await canary.start(OLD, memory_mb=4096)
    await canary.admit(2)
    limits = sorted(slot["limits"] for slot in stage.slots() if slot["assigned_bot_id"])
    assert limits == ["1/2048/0", "1/4096/0"]


async def test_changed_settings_end_the_rollout(stage: Stage) -> None:
    canary = await set_canary(stage)
    await canary.start()
    canary.replica = await stage.replica(pool(10, image="bot:3"))
    await canary.step()
    rollout = await canary.rollout()
    assert rollout.state is RolloutState.ROLLED_BACK
    assert rollout.reason == "The settings gave the pool another image or other limits."
    assert canary.pool_image() == "bot:3"


async def test_pull_waits_while_bots_wait(stage: Stage) -> None:
    canary = await set_canary(stage, 1)
    bots = await canary.admit(2)
    await canary.start()
    assert [slot["standby"] for slot in stage.slots()] == [None]
    rollout = await canary.rollout()
    assert rollout.waits_for == (
        "a free slot, in which the image is pulled: bots wait for slots and come first"
    )
    await canary.attend(*bots)
    await canary.attend(*bots)
    await canary.step()
    assert await canary.state() is RolloutState.CANARY


async def test_ended_rollouts_are_pruned_with_their_runs(stage: Stage) -> None:
    canary = await set_canary(stage)
    await canary.start()
    await canary.meet(2)
    await canary.replica.rollouts.promote(MEET)
    stage.clock.move(31 * 86_400)
    await prune_rollouts(canary.replica.database, days=30, limit=10)
    for table in ("rollouts", "revisions", "rollout_runs"):
        assert stage.rows(f"SELECT 1 FROM {table}") == []
