"""The descriptions that a backend's own user interface shows (seed 001)."""

from datetime import UTC, datetime

import pytest

from botpool.domain.errors import BackendRefused
from botpool.domain.ids import BotId
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.engine.replica import Replica
from tests.engine.lagging_backend import container, deployed, observed_running
from tests.engine.recovery_cases import pass_time, run_bot
from tests.support.replicas import Stage, bot_request, pool


def texts(stage: Stage) -> list[str]:
    return [str(text) for text in stage.backend.calls_of("describe")]


def at(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def settle_and_describe(stage: Stage, replica: Replica) -> str:
    """Let the slots settle, write the descriptions and return the last one."""
    await stage.settle(replica)
    await replica.describer.describe_due()
    return texts(stage)[-1]


async def crash(stage: Stage, replica: Replica, bot_id: BotId) -> None:
    """Let the bot's container exit, as the backend shows it."""
    stage.backend.show(stage.slot_of(bot_id)["container_id"], ContainerState.EXITED)
    await replica.observer.observe("process")


async def test_crash_is_visible_until_next_bot(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot
    await replica.describer.describe_due()
    stage.clock.move(60)
    await crash(stage, replica, bot.id)
    (slot,) = stage.slots()
    assert slot["status"] == "releasing"
    reason = "The container exited unexpectedly: exited"
    crashed_at = at(slot["error_at"])
    await replica.describer.describe_due()
    assert texts(stage)[-1] == f"[ERROR] {reason} - {crashed_at}"
    stage.clock.move(60)
    shown = await settle_and_describe(stage, replica)
    assert shown == f"[IDLE] Available - Last error: {reason} - {crashed_at}"
    second = (await stage.run_bot(replica)).bot
    await replica.describer.describe_due()
    assert texts(stage)[-1].startswith(f"[BUSY] Bot #{second.id} - ")
    await stage.end(replica, second.id)
    shown = await settle_and_describe(stage, replica)
    assert shown.startswith("[IDLE] Available - Last used: ")


async def test_silent_bot_is_visible_as_error(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await run_bot(stage, replica)
    await pass_time(stage, replica, 310)
    await replica.recovery.recover()
    await replica.describer.describe_due()
    assert texts(stage)[-1].startswith("[ERROR] No heartbeat for more than 300 s - ")
    shown = await settle_and_describe(stage, replica)
    assert shown.startswith("[IDLE] Available - Last error: No heartbeat for more than 300 s - ")


async def test_failed_deployment_is_visible_during_and_after_reset(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.ERROR
    await replica.admission.admit(bot_request())
    await stage.step(replica)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "releasing"
    await replica.describer.describe_due()
    assert texts(stage)[-1].startswith("[ERROR] the container is error - ")
    shown = await settle_and_describe(stage, replica)
    assert stage.slots()[0]["resets"] == 1
    assert shown.startswith("[IDLE] Available - Last error: the container is error - ")


async def test_meeting_that_fails_is_no_error_of_the_slot(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot
    await replica.slot_commands.release(stage.slot_of(bot.id)["id"], reason="by a test")
    await replica.describer.describe_due()
    shown = await settle_and_describe(stage, replica)
    assert shown == f"[IDLE] Available - Last used: {at(stage.slots()[0]['last_released_at'])}"
    assert not [text for text in texts(stage) if "error" in text.lower()]


async def test_error_is_visible_while_lagging_backend_confirms_stop(stage: Stage) -> None:
    """A status that lags confirms the stop after a minute: a person sees the error meanwhile."""
    stage.backend.has_deployments = True
    stage.backend.status_lag_s = 60.0
    replica = await stage.replica(pool(1))
    await deployed(stage, replica)
    await observed_running(stage, replica)
    stage.clock.move(61)
    stage.backend.show(container(stage), ContainerState.EXITED)
    await replica.observer.observe("process")
    await stage.step(replica)
    assert stage.slots()[0]["status"] == "releasing"
    await replica.describer.describe_due()
    assert texts(stage)[-1].startswith("[ERROR] The container exited unexpectedly: exited - ")


async def test_handover_is_described_as_idle_first(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    first = (await stage.run_bot(replica)).bot
    await replica.describer.describe_due()
    second = (await replica.admission.admit(bot_request())).bot
    stage.clock.move(60)
    await stage.end(replica, first.id)
    await stage.settle(replica)
    for _ in range(2):
        await replica.describer.describe_due()
    released_at = at(stage.slots()[0]["last_released_at"])
    _, idle, busy = texts(stage)
    assert idle == f"[IDLE] Available - Last used: {released_at}"
    assert busy.startswith(f"[BUSY] Bot #{second.id} - ")


@pytest.mark.parametrize("size", [7, 8])
async def test_idle_is_left_out_when_many_descriptions_are_due(stage: Stage, size: int) -> None:
    replica = await stage.replica(pool(size))
    first = [(await stage.run_bot(replica)).bot for _ in range(size)]
    for _ in range(2):
        await replica.describer.describe_due()
    for _ in range(size):
        await replica.admission.admit(bot_request())
    for bot in first:
        await stage.end(replica, bot.id)
    await stage.settle(replica)
    await replica.describer.describe_due()
    idle = [text for text in texts(stage) if text.startswith("[IDLE]")]
    assert len(idle) == (size if size < 8 else 0)


async def test_long_error_fits_the_backends_limit(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.fail("start", BackendRefused("image", "x" * 400))
    await replica.admission.admit(bot_request())
    shown = await settle_and_describe(stage, replica)
    assert shown.startswith("[IDLE] Available - Last error: image: xxx")
    assert shown.endswith("Z")
    assert len(shown) == 255
