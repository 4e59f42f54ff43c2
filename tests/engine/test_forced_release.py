"""The forced release of a slot whose stop cannot be confirmed.

A crash before the commit: the slot is still releasing, and the operator repeats the command. Twice:
the second command finds a slot that is not releasing, or another bot in it, and changes nothing. A
late confirmation, or a late step of a paused replica, finds another version and changes nothing.
The former container gets the instruction to exit, and its node ends it when it returns.
"""

import asyncio

import pytest

from botpool.domain.audit import Actor, current_actor
from botpool.domain.errors import NotFound, NotReleasableByForce
from botpool.domain.ids import AssignmentId, SlotId
from botpool.domain.observation import ContainerState
from botpool.domain.states import BotStatus
from tests.engine.test_unconfirmed_stops import SINCE, stopped_on_lost_node
from tests.support.invariants import assert_invariants
from tests.support.replicas import Stage, bot_request, pool


class ReplicaKilled(Exception):
    """Stands for `kill -9`."""


def slot_id(stage: Stage) -> SlotId:
    return SlotId(stage.slots()[0]["id"])


async def test_released_slot_serves_the_next_bot_beside_the_old_container(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    former = await stopped_on_lost_node(stage, replica)
    old = AssignmentId(stage.slots()[0]["assignment_id"])
    waiting = (await replica.admission.admit(bot_request())).bot.id
    await replica.forced_release.release(slot_id(stage), key_name="ops")
    await stage.settle(replica)
    slot = stage.slots()[0]
    assert (slot["status"], slot["assigned_bot_id"]) == ("busy", waiting)
    assert slot["abandoned_through"] == old
    container = stage.backend.containers[slot["container_id"]]
    assert container.left_behind == {old}, "the operator was wrong: the old container runs"
    instructions = await replica.agents.heartbeat(old, former)
    assert instructions.should_exit
    assert not await replica.agents.report(old, former, BotStatus.FAILED, "late")
    assert stage.statuses(former, waiting) == ["DONE", "JOINING_CALL"]
    stage.backend.return_node(slot["container_id"])
    assert container.left_behind == set(), "its stop was sent before the release"
    assert stage.statuses(waiting) == ["JOINING_CALL"]
    assert_invariants(stage.url)


async def test_history_and_audit_name_the_operator_and_the_node(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await stopped_on_lost_node(stage, replica)
    actor = Actor(name="ops", key_id=1, tenant="default", address=None, correlation_id=None)
    token = current_actor.set(actor)
    await replica.forced_release.release(slot_id(stage), key_name="ops")
    current_actor.reset(token)
    (row,) = stage.rows("SELECT * FROM history WHERE from_state = 'releasing'")
    assert row["reason"] == (
        "released by force by ops, without a confirmed stop: node n3 is unreachable"
    )
    assert row["data"] == {"abandonedContainerId": stage.slots()[0]["container_id"]}
    (entry,) = stage.rows("SELECT * FROM audit_log WHERE action = 'slot.release.force'")
    assert (entry["actor"], entry["before"]["node"]) == ("ops", "n3")


async def test_second_command_changes_nothing(stage: Stage) -> None:
    replica, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    former = await stopped_on_lost_node(stage, replica)
    both = await asyncio.gather(
        replica.forced_release.release(slot_id(stage), key_name="ops", bot_id=former),
        other.forced_release.release(slot_id(stage), key_name="ops", bot_id=former),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in both) == ["NoneType", "NotReleasableByForce"]
    before = stage.slots()
    with pytest.raises(NotReleasableByForce, match="it is idle, not releasing"):
        await replica.forced_release.release(slot_id(stage), key_name="ops")
    assert stage.slots() == before


async def test_command_for_a_former_bot_does_not_release_the_next_one(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    former = await stopped_on_lost_node(stage, replica)
    await replica.forced_release.release(slot_id(stage), key_name="ops", bot_id=former)
    following = await stopped_on_lost_node(stage, replica)
    with pytest.raises(NotReleasableByForce, match=f"it has bot {following} now, not bot {former}"):
        await replica.forced_release.release(slot_id(stage), key_name="ops", bot_id=former)
    assert stage.slots()[0]["status"] == "releasing"


async def test_late_confirmation_changes_nothing(stage: Stage) -> None:
    replica, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    await stopped_on_lost_node(stage, replica)
    waiting = (await replica.admission.admit(bot_request())).bot.id
    stage.backend.return_node(stage.slots()[0]["container_id"])
    observed, proceed = stage.backend.hold_answer("observe")
    late = asyncio.create_task(other.observer.observe("process"))
    await observed.wait()
    await replica.forced_release.release(slot_id(stage), key_name="ops")
    await stage.settle(replica)
    before = stage.slots()
    proceed.set()
    await late
    assert stage.slots() == before
    assert (before[0]["status"], before[0]["assigned_bot_id"]) == ("busy", waiting)


async def test_step_of_a_paused_replica_leaves_the_next_bot_alone(stage: Stage) -> None:
    replica, paused = await stage.replica(pool(1)), await stage.replica(pool(1))
    await stopped_on_lost_node(stage, replica)
    waiting = (await replica.admission.admit(bot_request())).bot.id
    stage.clock.move(30)
    sent, proceed = stage.backend.hold("stop")
    late = asyncio.create_task(stage.step(paused))
    await sent.wait()
    await replica.forced_release.release(slot_id(stage), key_name="ops")
    await stage.settle(replica)
    proceed.set()
    await late
    slot = stage.slots()[0]
    assert (slot["status"], slot["assigned_bot_id"]) == ("busy", waiting)
    assert stage.backend.containers[slot["container_id"]].state is ContainerState.RUNNING


async def test_replica_that_dies_before_the_commit_leaves_the_slot_releasing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    await stopped_on_lost_node(stage, replica)

    async def die(*_: object, **__: object) -> None:
        raise ReplicaKilled

    monkeypatch.setattr(replica.handover, "free", die)
    with pytest.raises(ReplicaKilled):
        await replica.forced_release.release(slot_id(stage), key_name="ops")
    assert stage.slots()[0]["status"] == "releasing"
    await other.forced_release.release(slot_id(stage), key_name="ops")
    assert stage.slots()[0]["status"] == "idle"


async def test_deploying_bot_of_a_released_slot_is_retried(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    stage.backend.state_after_start = ContainerState.STARTING
    bot = (await replica.admission.admit(bot_request())).bot.id
    await stage.settle(replica)
    slot = stage.slots()[0]
    stage.backend.lose_node(slot["container_id"], "n3", SINCE)
    await replica.slot_commands.recover(slot_id(stage), reason="recovered")
    await stage.settle(replica)
    stage.backend.state_after_start = ContainerState.RUNNING
    assert stage.slots()[0]["unconfirmed_node"] == "n3"
    await replica.forced_release.release(slot_id(stage), key_name="ops")
    await stage.settle(replica)
    assert stage.statuses(bot) == ["JOINING_CALL"]
    assert stage.slots()[0]["resets"] == 0, "a reset would wait for the old container"


async def test_only_an_unconfirmed_stop_can_be_forced(stage: Stage) -> None:
    replica = await stage.replica(pool(1, stop_grace_s=900.0))
    with pytest.raises(NotFound):
        await replica.forced_release.release(SlotId(99), key_name="ops")
    bot = (await stage.run_bot(replica)).bot.id
    with pytest.raises(NotReleasableByForce, match="it is busy"):
        await replica.forced_release.release(slot_id(stage), key_name="ops")
    stage.backend.obeys_signals = False
    await stage.end(replica, bot)
    await stage.settle(replica)
    with pytest.raises(NotReleasableByForce, match="wait for the stop"):
        await replica.forced_release.release(slot_id(stage), key_name="ops")
    stage.clock.move(900 + 121)
    await replica.forced_release.release(slot_id(stage), key_name="ops")
    assert stage.slots()[0]["status"] == "idle"


async def test_backend_with_one_container_per_slot_refuses(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = await stage.replica(pool(1))
    await stopped_on_lost_node(stage, replica)
    monkeypatch.setattr(stage.backend, "can_abandon_runs", False)
    with pytest.raises(NotReleasableByForce, match="needs the same container"):
        await replica.forced_release.release(slot_id(stage), key_name="ops")
    assert stage.slots()[0]["status"] == "releasing"
