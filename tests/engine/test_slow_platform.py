"""A platform whose status lags: what is believed, when a stop is confirmed, what is budgeted."""

import asyncio
from dataclasses import replace

import pytest

from botpool.backends.protocol import Purpose
from botpool.domain.errors import (
    BackendRefused,
    BackendUnavailable,
    BudgetSpent,
    ContainerGone,
    StillRunning,
)
from botpool.domain.ids import BotId
from botpool.domain.observation import ContainerState, DeploymentState
from botpool.domain.policy import Policy
from botpool.engine.budget import SharedBudget
from botpool.engine.replica import Replica

from invariants import assert_invariants
from replicas import Stage, pool, wish


@pytest.fixture(autouse=True)
def coolify_like(stage: Stage) -> None:
    stage.backend.has_deployments = True
    stage.backend.status_lag_s = 60.0


async def deployed(stage: Stage, replica: Replica) -> BotId:
    bot = (await replica.admission.admit(wish())).bot
    while await stage.step(replica):
        pass
    return bot.id


def container(stage: Stage) -> str:
    return str(stage.slots()[0]["container_id"])


async def seen_running(stage: Stage, replica: Replica) -> None:
    stage.backend.finish(container(stage))
    stage.backend.show(container(stage), ContainerState.RUNNING)
    await replica.looker.look("process")
    assert stage.slots()[0]["status"] == "busy"


async def test_a_first_deployment_that_shows_exited_all_the_time_is_no_failure(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    for _ in range(28):
        stage.clock.move(15)
        await replica.looker.look("process")
        assert stage.statuses(bot) == ["DEPLOYING"]
    await seen_running(stage, replica)
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_the_grace_begins_with_the_end_of_the_deployment(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await deployed(stage, replica)
    stage.clock.move(600)
    stage.backend.finish(container(stage))
    await replica.looker.look("process")
    stage.clock.move(179)
    await replica.looker.look("process")
    assert stage.slots()[0]["status"] == "deploying"
    stage.clock.move(2)
    await replica.looker.look("process")
    assert stage.slots()[0]["status"] == "releasing"
    assert stage.backend.made("deployment") == ["d1"], "asked for once it was not under way"


@pytest.mark.parametrize("end", [DeploymentState.FAILED, DeploymentState.CANCELLED])
async def test_a_deployment_that_broke_off_fails_at_once(
    stage: Stage, end: DeploymentState
) -> None:
    replica = await stage.replica(pool(1))
    await deployed(stage, replica)
    stage.backend.finish(container(stage), end)
    await replica.looker.look("process")
    assert stage.slots()[0]["status"] == "releasing"


async def test_an_agents_early_call_is_not_undone_by_a_late_status(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    stage.backend.finish(container(stage))
    await replica.agents.heartbeat(stage.slots()[0]["assignment_id"], bot)
    for _ in range(5):
        await replica.looker.look("process")
        stage.clock.move(11)
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_a_live_agent_is_believed_against_the_status(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await seen_running(stage, replica)
    stage.clock.move(300)
    await replica.agents.heartbeat(stage.slots()[0]["assignment_id"], bot)
    stage.backend.show(container(stage), ContainerState.EXITED)
    await replica.looker.look("process")
    assert stage.statuses(bot) == ["JOINING_CALL"]
    stage.clock.move(31)
    await replica.looker.look("process")
    assert stage.bot(bot)["failure_code"] == "container_exited"


async def test_a_stop_is_sent_once_and_confirmed_by_the_regular_look(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await seen_running(stage, replica)
    stage.backend.stops_work = False
    await stage.end(replica, bot)
    await stage.step(replica)
    looked = len(stage.backend.made("look"))
    for _ in range(3):
        stage.clock.move(15)
        await stage.step(replica)
        await replica.looker.look("process")
        assert stage.slots()[0]["status"] == "releasing"
    assert len(stage.backend.made("stop")) == 1
    assert len(stage.backend.made("look")) == looked + 3
    stage.backend.show(container(stage), ContainerState.EXITED)
    await replica.looker.look("process")
    assert stage.slots()[0]["status"] == "idle"
    assert_invariants(stage.url)


async def test_a_status_from_before_the_start_confirms_no_stop_until_the_lag_has_passed(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await replica.stopping.stop(bot)
    await stage.step(replica)
    stage.clock.move(59)
    await replica.looker.look("process")
    assert stage.slots()[0]["status"] == "releasing"
    stage.clock.move(2)
    await replica.looker.look("process")
    assert stage.slots()[0]["status"] == "idle"


async def test_an_agents_word_alone_does_not_make_an_old_status_confirm_a_stop(
    stage: Stage,
) -> None:
    """A quick bot ends while the status still shows what was before its start."""
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    stage.backend.finish(container(stage))
    await replica.agents.heartbeat(stage.slots()[0]["assignment_id"], bot)
    stage.backend.stops_work = False
    await stage.end(replica, bot)
    await stage.step(replica)
    stage.clock.move(59)
    await replica.looker.look("process")
    assert stage.slots()[0]["status"] == "releasing"
    stage.clock.move(2)
    await replica.looker.look("process")
    assert stage.slots()[0]["status"] == "idle"


async def test_a_busy_container_that_a_look_shows_running_was_seen_running(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    stage.backend.finish(container(stage))
    await replica.agents.heartbeat(stage.slots()[0]["assignment_id"], bot)
    stage.backend.show(container(stage), ContainerState.RUNNING)
    await replica.looker.look("process")
    await stage.end(replica, bot)
    await stage.step(replica)
    stage.backend.show(container(stage), ContainerState.EXITED)
    await replica.looker.look("process")
    assert stage.slots()[0]["status"] == "idle"


async def test_a_refused_start_needs_no_stop(stage: Stage) -> None:
    """Where a token may not deploy it may not stop either: the bot must not hang for that."""
    replica = await stage.replica(pool(1))
    refused = BackendRefused("backends.coolify.token", "lacks the ability deploy")
    stage.backend.fail("start", refused, refused)
    bot = await deployed(stage, replica)
    await stage.settle(replica)
    assert stage.backend.made("stop") == []
    assert stage.bot(bot)["status"] == "FAILED"
    assert "deploy" in stage.bot(bot)["failure_reason"]
    health = await replica.readiness.backend_health("process")
    assert health.ok, "what the backend says of itself is asked again"


async def test_a_start_that_is_refused_when_it_is_repeated_is_stopped(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    stage.backend.fail("start", BackendUnavailable("no answer"))
    bot = await deployed(stage, replica)
    stage.backend.fail("start", BackendRefused("backends.coolify.token", "expired"))
    stage.clock.move(20)
    while await stage.step(replica):
        pass
    assert stage.slots()[0]["error_message"] == "backends.coolify.token: expired"
    assert len(stage.backend.made("stop")) == 1, "the first one may have started something"
    assert stage.statuses(bot) == ["DEPLOYING"]


async def test_a_stop_that_does_nothing_is_sent_again_and_then_the_container_deleted(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await seen_running(stage, replica)
    stage.backend.stops_work = False
    await stage.end(replica, bot)
    for _ in range(30):
        await stage.step(replica)
        await replica.looker.look("process")
        stage.clock.move(15)
    assert 2 <= len(stage.backend.made("stop")) <= 4
    assert len(stage.backend.made("delete")) == 1
    assert stage.slots()[0]["status"] == "idle"


async def test_a_look_does_not_free_a_slot_whose_stop_is_being_sent(stage: Stage) -> None:
    """The stop would reach the next tenant."""
    replica, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await seen_running(stage, replica)
    await stage.end(replica, bot)
    stage.backend.stops_work = False
    await stage.step(replica)
    stage.clock.move(80)
    come, go_on = stage.backend.hold("stop")
    await replica.stepper.make_due_steps()
    await come.wait()
    stage.backend.show(container(stage), ContainerState.EXITED)
    await other.looker.look("process")
    assert stage.slots()[0]["status"] == "releasing"
    go_on.set()
    await asyncio.gather(*replica.stepper.under_way)
    await other.looker.look("process")
    assert stage.slots()[0]["status"] == "idle"


async def test_a_stop_that_a_deployment_may_undo_is_sent_again(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await replica.stopping.stop(bot)
    await stage.step(replica)
    stage.backend.finish(container(stage), DeploymentState.IN_PROGRESS)
    stage.clock.move(61)
    await replica.looker.look("process")
    assert stage.slots()[0]["stop_issued_at"] is None
    await stage.step(replica)
    stage.clock.move(59)
    await replica.looker.look("process")
    assert stage.slots()[0]["status"] == "releasing", "the lag counts from the second stop"
    stage.clock.move(2)
    await replica.looker.look("process")
    assert stage.slots()[0]["status"] == "idle"


async def test_a_stop_sent_to_a_server_that_cannot_be_reached_is_sent_again(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await seen_running(stage, replica)
    await stage.end(replica, bot)
    stage.backend.stops_work = False
    await stage.step(replica)
    stage.backend.is_blind = True
    await replica.looker.look("process")
    stage.backend.is_blind = False
    stage.backend.show(container(stage), ContainerState.EXITED)
    stage.clock.move(70)
    await replica.looker.look("process")
    assert stage.slots()[0]["status"] == "releasing", "nobody may have heard that stop"
    stage.clock.move(10)
    await stage.step(replica)
    assert len(stage.backend.made("stop")) == 2
    await replica.looker.look("process")
    assert stage.slots()[0]["status"] == "idle"


async def test_a_deployment_that_cannot_be_cancelled_ends_with_its_container(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await replica.stopping.stop(bot)
    stage.backend.fail("stop", *[StillRunning("it is being cancelled")] * 100)
    for _ in range(20):
        await stage.step(replica)
        stage.clock.move(15)
    assert len(stage.backend.made("delete")) == 1
    assert stage.slots()[0]["status"] == "idle"


async def test_an_outage_of_an_hour_costs_nothing_but_time(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    runs = await deployed(stage, replica)
    await seen_running(stage, replica)
    waits = await deployed(stage, replica)
    down = BackendUnavailable("502 Bad Gateway")
    for call in ("look", "start", "ensure", "stop", "deployment"):
        stage.backend.fail(call, *[down] * 500)
    for _ in range(60):
        stage.clock.move(20)
        await stage.step(replica)
        await replica.looker.look("process")
    assert stage.statuses(runs, waits) == ["JOINING_CALL", "DEPLOYING"]
    assert len(stage.slots()) == 2
    assert stage.backend.made("delete") == []


async def test_a_spent_budget_is_asked_again_when_it_said(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    stage.backend.fail("ensure", BudgetSpent("the budget is spent", 40.0))
    await replica.admission.admit(wish())
    await stage.step(replica)
    stage.clock.move(39)
    assert await stage.step(replica) == 0
    stage.clock.move(2)
    assert await stage.step(replica) == 1


async def test_a_container_deleted_behind_our_back_is_made_again_under_the_same_slot(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await seen_running(stage, replica)
    await stage.end(replica, bot)
    await stage.settle(replica)
    old = container(stage)
    stage.backend.lose(old)
    stage.backend.has_deployments = False
    bot = await deployed(stage, replica)
    new = container(stage)
    assert new != old
    assert stage.bot(bot)["container_id"] == new
    (made,) = stage.rows(
        "SELECT data FROM history WHERE reason = 'the container was gone and made again'"
    )
    assert made["data"] == {"containerId": new, "formerContainerId": old, "attempt": 1}


async def test_one_minute_takes_no_more_than_the_budget(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    budgets = [
        SharedBudget(database=database, backend="process", requests_per_minute=200)
        for database in (replica.database, (await stage.replica()).database)
    ]

    async def take(number: int, purpose: Purpose, requests: int) -> bool:
        try:
            await budgets[number % 2].take(purpose, requests)
        except BudgetSpent:
            return False
        return True

    taken = await asyncio.gather(*(take(n, Purpose.STOP, 1) for n in range(300)))
    assert sum(taken) == 200
    stage.clock.move(67)
    assert not await take(0, Purpose.STOP, 1), "what was granted may still be being sent"
    stage.clock.move(6)
    assert await take(0, Purpose.DESCRIPTION, 100)
    assert not await take(0, Purpose.DESCRIPTION, 1), "the rest is for what is more urgent"
    assert await take(0, Purpose.MAKE, 40)
    assert not await take(0, Purpose.MAKE, 1)
    assert await take(0, Purpose.START, 30)
    assert not await take(0, Purpose.START, 1)
    assert await take(0, Purpose.LOOK, 20)
    assert not await take(0, Purpose.LOOK, 1)
    assert await take(1, Purpose.STOP, 10)
    assert not await take(1, Purpose.STOP, 1)


async def test_a_pause_holds_for_all_replicas(stage: Stage) -> None:
    first, second = await stage.replica(pool(1)), await stage.replica()
    ours = SharedBudget(database=first.database, backend="process", requests_per_minute=200)
    theirs = SharedBudget(database=second.database, backend="process", requests_per_minute=200)
    await ours.pause(30)
    with pytest.raises(BudgetSpent) as refused:
        await theirs.take(Purpose.STOP, 1)
    assert 29 <= refused.value.retry_after_s <= 30
    stage.clock.move(31)
    await theirs.take(Purpose.STOP, 1)


async def test_descriptions_follow_the_slot_and_never_go_back(stage: Stage) -> None:
    replica, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await replica.describer.describe_due()
    await seen_running(stage, replica)
    come, go_on = stage.backend.hold("describe")
    slow = asyncio.create_task(replica.describer.describe_due())
    await come.wait()
    await stage.end(replica, bot)
    await stage.step(replica)
    stage.backend.show(container(stage), ContainerState.EXITED)
    await replica.looker.look("process")
    await other.describer.describe_due()
    assert len(stage.backend.made("describe")) == 2, "none while another one is under way"
    go_on.set()
    await slow
    await other.describer.describe_due()
    await other.describer.describe_due()
    told = [str(text).split(" - ")[0] for text in stage.backend.made("describe")]
    assert told == ["[DEPLOYING] Bot #1", "[BUSY] Bot #1", "[IDLE] Available"]


async def test_a_description_that_was_not_answered_keeps_the_next_one_waiting(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1))
    await deployed(stage, replica)
    stage.backend.fail("describe", BackendUnavailable("no answer"))
    await replica.describer.describe_due()
    await seen_running(stage, replica)
    await replica.describer.describe_due()
    assert len(stage.backend.made("describe")) == 1
    stage.clock.move(31)
    await replica.describer.describe_due()
    assert str(stage.backend.made("describe")[-1]).startswith("[BUSY] Bot #1")


async def test_a_container_that_is_gone_is_described_by_nobody(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await deployed(stage, replica)
    stage.backend.fail("describe", ContainerGone("gone"))
    for _ in range(3):
        await replica.describer.describe_due()
        stage.clock.move(31)
    assert len(stage.backend.made("describe")) == 1


async def test_slots_of_a_former_backend_are_taken_down(stage: Stage) -> None:
    stage.backend.has_deployments = False
    stage.backend.status_lag_s = 0
    replica = await stage.replica(pool(2), policy=Policy())
    bot = (await stage.run_bot(replica)).bot
    await stage.end(replica, bot.id)
    await stage.settle(replica)
    stage.rows("UPDATE bot_pool_slots SET backend = 'process', version = version + 1")
    stage.rows("UPDATE pools SET backend = 'coolify'")
    await replica.matcher.match_pool(stage.slots()[0]["platform"])
    await stage.settle(replica)
    assert stage.slots() == []
    assert stage.backend.containers == {}


async def test_changed_limits_are_taken_by_the_next_deployment(stage: Stage) -> None:
    stage.backend.has_deployments = False
    stage.backend.status_lag_s = 0
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot
    await stage.end(replica, bot.id)
    await stage.settle(replica)
    await replica.pools.configure([replace(pool(1), cpus=2.5, memory_mb=4096)])
    for _ in range(2):
        bot = (await stage.run_bot(replica)).bot
        await stage.end(replica, bot.id)
        await stage.settle(replica)
    assert len(stage.backend.made("ensure")) == 2, "made once, and changed once"
    assert stage.slots()[0]["limits"] == "2.5/4096"


async def test_one_odd_container_does_not_hold_the_others(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    for _ in range(2):
        await deployed(stage, replica)
        for slot in stage.slots():
            stage.backend.finish(slot["container_id"])
            stage.backend.show(slot["container_id"], ContainerState.RUNNING)
        await replica.looker.look("process")
    odd, leaving = (slot["container_id"] for slot in stage.slots())
    stage.backend.show(odd, ContainerState.UNKNOWN)
    await stage.end(replica, stage.slots()[1]["assigned_bot_id"])
    await stage.step(replica)
    stage.backend.show(leaving, ContainerState.EXITED)
    await replica.looker.look("process")
    assert [slot["status"] for slot in stage.slots()] == ["busy", "idle"]


async def test_a_container_that_is_being_deleted_is_given_to_nobody(stage: Stage) -> None:
    """The platform deletes later, and shows it stopped until then."""
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await seen_running(stage, replica)
    stage.backend.stops_work = stage.backend.deletes_at_once = False
    await stage.end(replica, bot)
    for _ in range(20):
        await stage.step(replica)
        await replica.looker.look("process")
        stage.clock.move(15)
    assert stage.backend.made("delete")
    stage.backend.show(container(stage), ContainerState.EXITED)
    await replica.looker.look("process")
    assert stage.slots()[0]["status"] == "releasing"
    stage.backend.lose(container(stage))
    await replica.looker.look("process")
    assert (stage.slots()[0]["status"], stage.slots()[0]["container_id"]) == ("idle", None)


async def test_what_stopped_during_an_outage_is_not_deleted_after_it(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await seen_running(stage, replica)
    await stage.end(replica, bot)
    await stage.step(replica)
    stage.clock.move(900)
    await stage.step(replica)
    assert stage.slots()[0]["status"] == "idle"
    assert stage.backend.made("delete") == []


async def test_a_look_that_is_answered_late_frees_nothing(stage: Stage) -> None:
    """Meanwhile another replica has leased the slot, and is just sending the stop again."""
    replica, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await seen_running(stage, replica)
    await stage.end(replica, bot)
    stage.backend.stops_work = False
    await stage.step(replica)
    stage.backend.show(container(stage), ContainerState.EXITED)
    acted, answer = stage.backend.hold_answer("look")
    late = asyncio.create_task(other.looker.look("process"))
    await acted.wait()
    stage.clock.move(80)
    come, go_on = stage.backend.hold("stop")
    await replica.stepper.make_due_steps()
    await come.wait()
    answer.set()
    await late
    assert stage.slots()[0]["status"] == "releasing"
    go_on.set()
    await asyncio.gather(*replica.stepper.under_way)


async def test_what_ran_before_the_upgrade_is_stopped(stage: Stage) -> None:
    """An older replica does not write when a start was let through."""
    stage.backend.has_deployments = False
    stage.backend.status_lag_s = 0
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot
    stage.rows("UPDATE bot_pool_slots SET start_wanted_at = NULL, version = version + 1")
    await stage.end(replica, bot.id)
    await stage.settle(replica)
    assert len(stage.backend.made("stop")) == 1


async def test_a_wrong_setting_deletes_no_container(stage: Stage) -> None:
    stage.backend.has_deployments = False
    stage.backend.status_lag_s = 0
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.ERROR
    await replica.admission.admit(wish())
    while await stage.step(replica):
        pass
    refused = BackendRefused("backends.coolify.token", "expired")
    stage.backend.fail("ensure", *[refused] * 9)
    for _ in range(9):
        await replica.looker.look("process")
        await stage.step(replica)
        stage.clock.move(61)
    assert stage.slots()[0]["status"] == "error"
    assert stage.backend.made("delete") == []


async def test_a_replica_without_the_backend_opens_no_gate(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    assert await replica.gate.open("coolify") == {}
