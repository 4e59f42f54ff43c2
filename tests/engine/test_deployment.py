"""Deployments: from `deploying` to `busy`, and failures with their retries."""

import pytest

from botpool.domain.errors import BackendRefused, BackendUnavailable
from botpool.domain.ids import AssignmentId
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from tests.support.replicas import Stage, bot_request, pool


async def test_slot_is_busy_once_its_container_is_observed_running(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    stage.backend.state_after_start = ContainerState.STARTING
    bot = (await replica.admission.admit(bot_request())).bot
    await stage.settle(replica)
    assert (stage.slots()[0]["status"], stage.slots()[0]["phase"]) == ("deploying", "starting")
    stage.backend.show(stage.slots()[0]["container_id"], ContainerState.RUNNING)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "busy"
    assert stage.statuses(bot.id) == ["JOINING_CALL"]


async def test_agent_call_makes_the_slot_busy(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    stage.backend.state_after_start = ContainerState.STOPPED
    bot = (await replica.admission.admit(bot_request())).bot
    await stage.step(replica)
    slot = stage.slots()[0]
    view, released = await replica.agents.identify(
        AssignmentId(slot["assignment_id"]), slot["container_id"]
    )
    assert not released
    assert view.bot.status is BotStatus.JOINING_CALL
    assert stage.slots()[0]["status"] == "busy"
    assert stage.statuses(bot.id) == ["JOINING_CALL"]


async def test_exited_within_the_grace_does_not_fail_the_deployment(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    stage.backend.state_after_start = ContainerState.STOPPED
    await replica.admission.admit(bot_request())
    await stage.step(replica)
    stage.clock.move(179)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "deploying"
    stage.clock.move(2)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "releasing"


@pytest.mark.parametrize("state", [ContainerState.ERROR, ContainerState.DEGRADED])
async def test_error_and_degraded_fail_the_deployment_at_once(
    stage: Stage, state: ContainerState
) -> None:
    replica = await stage.replica(pool(1))
    stage.backend.state_after_start = state
    await replica.admission.admit(bot_request())
    await stage.step(replica)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "releasing"


async def test_start_that_never_runs_times_out(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.STARTING
    bot = (await replica.admission.admit(bot_request())).bot
    await stage.settle(replica)
    stage.clock.move(1_499)
    await stage.settle(replica)
    assert stage.statuses(bot.id) == ["DEPLOYING"]
    stage.clock.move(2)
    await stage.settle(replica)
    assert stage.bot(bot.id)["failure_code"] == "deploy_failed"
    assert "1500 s" in stage.bot(bot.id)["failure_reason"]


async def test_failed_deployment_is_retried_under_the_same_bot_id(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    stage.backend.state_after_start = ContainerState.ERROR
    bot = (await replica.admission.admit(bot_request())).bot
    await stage.step(replica)
    stage.backend.state_after_start = ContainerState.RUNNING
    await stage.settle(replica)
    row = stage.bot(bot.id)
    assert (row["status"], row["attempts"]) == ("JOINING_CALL", 2)
    (slot,) = stage.slots()
    assert (slot["status"], slot["resets"]) == ("busy", 0)


async def test_retried_bot_keeps_its_arrival_number(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    stage.backend.state_after_start = ContainerState.ERROR
    first = (await replica.admission.admit(bot_request())).bot.id
    later = (await replica.admission.admit(bot_request())).bot.id
    await stage.step(replica)
    stage.backend.state_after_start = ContainerState.RUNNING
    await stage.settle(replica)
    assert stage.statuses(first, later) == ["JOINING_CALL", "QUEUED"]


async def test_bot_fails_with_the_reason_of_its_last_attempt(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    stage.backend.state_after_start = ContainerState.DEGRADED
    bot = (await replica.admission.admit(bot_request())).bot
    await stage.settle(replica)
    await stage.settle(replica)
    row = stage.bot(bot.id)
    assert (row["status"], row["failure_code"], row["attempts"]) == ("FAILED", "deploy_failed", 2)
    assert "degraded" in row["failure_reason"]


async def test_bot_is_requeued_only_after_the_confirmed_stop(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    stage.backend.state_after_start = ContainerState.DEGRADED
    stage.backend.stops_work = False
    bot = (await replica.admission.admit(bot_request())).bot
    await stage.step(replica)
    await replica.observer.observe("process")
    await stage.step(replica)
    assert stage.statuses(bot.id) == ["DEPLOYING"]
    assert stage.slots()[0]["status"] == "releasing"
    stage.backend.stops_work = True
    stage.clock.move(1)
    await stage.step(replica)
    assert stage.bot(bot.id)["attempts"] == 2


async def test_slot_is_deleted_after_three_failed_resets(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.ERROR
    first_slot = None
    for _ in range(4):
        await replica.admission.admit(bot_request())
        first_slot = first_slot or stage.slots()[0]["id"]
        await stage.settle(replica)
    await stage.settle(replica)
    assert first_slot not in [slot["id"] for slot in stage.slots()]
    assert len(stage.backend.calls_of("delete")) == 1


async def test_missing_container_is_created_again_for_its_slot(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    first = await stage.run_bot(replica)
    await stage.end(replica, first.bot.id)
    await stage.settle(replica)
    old = stage.slots()[0]["container_id"]
    stage.backend.lose(old)
    second = await stage.run_bot(replica)
    slot = stage.slots()[0]
    assert slot["container_id"] not in (None, old)
    assert second.bot.container_id == slot["container_id"]
    (recreated,) = stage.rows(
        "SELECT data FROM history WHERE kind = 'slot.phase' AND data ->> 'formerContainerId' = %s "
        "AND data ->> 'containerId' <> %s",
        old,
        old,
    )
    assert recreated["data"]["containerId"] == slot["container_id"]


async def test_unavailable_backend_only_delays_the_deployment(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    outage = [BackendUnavailable("down")] * 5
    stage.backend.fail("ensure", *outage)
    bot = (await replica.admission.admit(bot_request())).bot
    for _ in range(5):
        await stage.step(replica)
        assert stage.statuses(bot.id) == ["DEPLOYING"]
        stage.clock.move(16)
    await stage.settle(replica)
    assert stage.statuses(bot.id) == ["JOINING_CALL"]
    assert stage.bot(bot.id)["attempts"] == 1


async def test_deployment_fails_when_the_backend_stays_unavailable(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.fail("ensure", *[BackendUnavailable("down")] * 2)
    bot = (await replica.admission.admit(bot_request())).bot
    await stage.step(replica)
    stage.clock.move(1_801)
    await stage.settle(replica)
    row = stage.bot(bot.id)
    assert (row["failure_code"], "down" in row["failure_reason"]) == ("deploy_failed", True)


async def test_refused_deployment_names_the_setting(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.fail("start", BackendRefused("backends.x.token", "is not valid"))
    bot = (await replica.admission.admit(bot_request())).bot
    await stage.settle(replica)
    assert stage.bot(bot.id)["failure_reason"] == "backends.x.token: is not valid"


async def test_failed_list_call_deletes_nothing(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    bots = [(await stage.run_bot(replica)).bot.id for _ in range(2)]
    stage.backend.fail("observe", *[BackendUnavailable("502 with HTML")] * 240)
    for _ in range(240):
        stage.clock.move(15)
        await replica.observer.observe_due_backends()
    assert stage.statuses(*bots) == ["JOINING_CALL", "JOINING_CALL"]
    assert len(stage.slots()) == 2


async def test_bot_fails_when_its_container_exits(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot
    stage.backend.show(stage.slots()[0]["container_id"], ContainerState.EXITED)
    await replica.observer.observe("process")
    assert stage.bot(bot.id)["failure_code"] == "container_exited"
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "idle"


async def test_bot_is_done_when_its_container_exits_after_the_call(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot
    assignment = AssignmentId(stage.slots()[0]["assignment_id"])
    await replica.agents.report(assignment, bot.id, BotStatus.CALL_ENDED, None)
    stage.backend.show(stage.slots()[0]["container_id"], ContainerState.EXITED)
    await replica.observer.observe("process")
    assert stage.statuses(bot.id) == ["DONE"]


async def test_unconfirmed_stop_leads_to_deletion(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot
    old = stage.slots()[0]["container_id"]
    stage.backend.stops_work = False
    await stage.end(replica, bot.id)
    for _ in range(10):
        assert stage.slots()[0]["status"] == "releasing"
        await stage.step(replica)
        stage.clock.move(16)
    assert stage.backend.calls_of("delete") == [old]
    assert stage.statuses(bot.id) == ["DONE"], "the bot's end does not depend on its container"
    (slot,) = stage.slots()
    assert (slot["status"], slot["container_id"]) == ("idle", None)
    stage.backend.stops_work = True
    again = await stage.run_bot(replica)
    assert again.bot.container_id not in (None, old)


async def test_next_deployment_uses_the_changed_image(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    first = await stage.run_bot(replica)
    await replica.pools.configure([pool(1, image="demo:2")])
    assert stage.slots()[0]["image"] == "demo"
    await stage.end(replica, first.bot.id)
    await stage.settle(replica)
    await stage.run_bot(replica)
    assert stage.slots()[0]["image"] == "demo:2"


async def test_lowered_maximum_deletes_only_idle_slots(stage: Stage) -> None:
    replica = await stage.replica(pool(3))
    bots = [(await stage.run_bot(replica)).bot.id for _ in range(3)]
    for bot in bots[1:]:
        await stage.end(replica, bot)
    await stage.settle(replica)
    await replica.pools.configure([pool(2)])
    await stage.settle(replica)
    assert [slot["number"] for slot in stage.slots()] == [1, 2]
    assert stage.statuses(bots[0]) == ["JOINING_CALL"]
