"""A slot stuck in `deploying` gets a new container at its first reset (seed 000)."""

from botpool.domain.errors import BackendUnavailable
from botpool.domain.ids import BotId
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.engine.replica import Replica
from tests.engine.recovery_cases import pass_time
from tests.support.replicas import Stage, bot_request, pool


async def start_stuck(stage: Stage, replica: Replica) -> tuple[BotId, str]:
    """Start a bot whose container never runs; returns the bot and the container."""
    stage.backend.state_after_start = ContainerState.STARTING
    bot = (await replica.admission.admit(bot_request())).bot
    await stage.step(replica)
    stage.backend.state_after_start = ContainerState.RUNNING
    return bot.id, stage.slot_of(bot.id)["container_id"]


async def test_recovery_recreates_container_at_first_reset(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot, former = await start_stuck(stage, replica)
    await pass_time(stage, replica, 16 * 60)
    await replica.recovery.recover()
    await stage.settle(replica)
    slot = stage.slot_of(bot)
    assert stage.backend.calls_of("delete") == [former]
    assert slot["container_id"] != former
    assert (slot["status"], slot["recreate_container"]) == ("busy", False)
    assert former not in stage.backend.containers
    assert stage.bot(bot)["attempts"] == 2, "the same bot runs in the new container"


async def test_start_timeout_recreates_container_at_first_reset(stage: Stage) -> None:
    policy = Policy(deploy_attempts=1)
    replica = await stage.replica(pool(1), policy=policy)
    bot, former = await start_stuck(stage, replica)
    await pass_time(stage, replica, policy.deploy_timeout_s)
    await stage.settle(replica)
    assert stage.statuses(bot) == ["FAILED"]
    (slot,) = stage.slots()
    assert (slot["status"], slot["resets"]) == ("idle", 1)
    assert slot["container_id"] != former
    assert stage.backend.calls_of("delete") == [former]


async def test_failed_deployment_keeps_container(stage: Stage) -> None:
    """The backend said what failed: the container itself is not at fault."""
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.ERROR
    bot = (await replica.admission.admit(bot_request())).bot
    await stage.settle(replica)
    assert stage.statuses(bot.id) == ["FAILED"]
    (slot,) = stage.slots()
    assert (slot["status"], slot["resets"]) == ("idle", 1)
    assert not stage.backend.calls_of("delete")


async def test_slot_waits_until_stuck_container_is_gone(stage: Stage) -> None:
    """Coolify deletes later: a new container must not be made beside the old one."""
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    _, former = await start_stuck(stage, replica)
    await pass_time(stage, replica, 16 * 60)
    stage.backend.deletes_at_once = False
    await replica.recovery.recover()
    await stage.settle(replica)
    (slot,) = stage.slots()
    assert (slot["status"], slot["container_id"], slot["resets"]) == ("error", former, 0)
    stage.backend.lose(former)
    stage.clock.move(60)
    await stage.settle(replica)
    (slot,) = stage.slots()
    assert slot["status"] == "idle"
    assert slot["container_id"] not in (None, former)


async def test_other_replica_continues_after_crash_in_recreation(stage: Stage) -> None:
    """The container was deleted and created, and the process died before the commit."""
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    _, former = await start_stuck(stage, replica)
    await pass_time(stage, replica, 16 * 60)
    await replica.recovery.recover()
    while stage.slots()[0]["status"] != "error":
        await stage.step(replica)
    created, _ = stage.backend.hold_answer("ensure")
    await replica.reconciler.run_due_steps()
    await created.wait()
    for task in list(replica.reconciler.under_way):
        task.cancel()
    other = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.clock.move(120)
    await stage.settle(other)
    (slot,) = stage.slots()
    assert (slot["status"], slot["recreate_container"]) == ("idle", False)
    assert list(stage.backend.containers) == [slot["container_id"]]
    assert slot["container_id"] != former


async def test_unavailable_backend_postpones_recreation(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    _, former = await start_stuck(stage, replica)
    await pass_time(stage, replica, 16 * 60)
    await replica.recovery.recover()
    stage.backend.fail("delete", BackendUnavailable("no answer"))
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "error"
    stage.clock.move(60)
    await stage.settle(replica)
    (slot,) = stage.slots()
    assert slot["status"] == "idle"
    assert slot["container_id"] != former
