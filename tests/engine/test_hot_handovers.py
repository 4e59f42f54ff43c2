"""Hot hand-overs: a claim gives a waiting container its bot, and one boot accepts it."""

import asyncio
from typing import Any

import pytest

from botpool.domain.ids import AssignmentId, BotId, ContainerId
from botpool.domain.observation import ContainerState
from botpool.domain.states import BotStatus
from botpool.engine.agents import standby_polls
from botpool.engine.replica import Replica
from botpool.store.standbys import PolledSlot, open_poll
from tests.support.replaced_statements import changed
from tests.support.replicas import Stage, bot_request
from tests.support.standbys import StandbyAgent, hot_pool, keep, ready_standby


async def admit(replica: Replica) -> BotId:
    return (await replica.admission.admit(bot_request())).bot.id


def the_slot(stage: Stage) -> dict[str, Any]:
    (slot,) = stage.slots()
    return slot


async def test_standby_runs_without_a_bot_and_gets_one_through_its_poll(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    agent = await ready_standby(stage, replica)
    slot = the_slot(stage)
    assert (slot["status"], slot["standby"], slot["claim_rank"]) == ("idle", "ready", 0)
    (container,) = stage.backend.containers.values()
    assert "BOT_DATA" not in container.environment
    assert "BOTPOOL_TOKEN" not in container.environment

    bot = await admit(replica)
    answer = await agent.answer()

    assert answer.handover is not None and answer.handover.bot_id == bot
    assert "abc-defg-hij" in answer.environment["BOT_DATA"]
    assert stage.statuses(bot) == ["DEPLOYING"], "the poll alone makes no bot join"
    assert not await agent.accept(answer)
    slot = the_slot(stage)
    assert (slot["status"], slot["standby"], slot["run_id"]) == ("busy", None, agent.run_id)
    assert stage.statuses(bot) == ["JOINING_CALL"]
    assert stage.backend.runs == [agent.run_id], "no container was started for the bot"


@pytest.mark.parametrize("is_hot", [True, False])
async def test_accept_or_the_first_call_protects_the_run_from_drains(
    stage: Stage, is_hot: bool
) -> None:
    stage.backend.has_deployments = True
    replica = await stage.replica(hot_pool(1 if is_hot else 0, max_size=1))
    if is_hot:
        agent = await ready_standby(stage, replica)
        await admit(replica)
        answer = await agent.answer()
        assert stage.backend.protected == [], "a drain may take a standby"
        assert [await agent.accept(answer), await agent.accept(answer)] == [False, False]
    else:
        await admit(replica)
        while await stage.step(replica):
            pass
        slot = the_slot(stage)
        assert stage.backend.protected == [], "nothing is known of its agent"
        assignment = AssignmentId(slot["assignment_id"])
        for _ in range(2):
            await replica.agents.identify(assignment, ContainerId(slot["container_id"]))
    assert stage.backend.protected == stage.backend.runs, "once, and under the id of the run"


async def test_new_bot_reaches_a_poll_of_its_own_replica_without_another_query(
    stage: Stage,
) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    agent = await ready_standby(stage, replica)
    with changed("list_handovers", {"WHERE": "WHERE false AND"}):
        bot = await admit(replica)
        answer = await agent.answer()
    assert answer.handover is not None and answer.handover.bot_id == bot


async def test_same_boot_accepts_twice_and_another_boot_exits(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    agent = await ready_standby(stage, replica)
    bot = await admit(replica)
    answer = await agent.answer()
    assert [await agent.accept(answer), await agent.accept(answer)] == [False, False]
    assert await agent.accept(answer, boot="boot-2")
    assert stage.statuses(bot) == ["JOINING_CALL"], "the other boot ends nothing"


async def test_of_two_boots_that_accept_at_once_one_wins(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    agent = await ready_standby(stage, replica)
    await admit(replica)
    answer = await agent.answer()
    exits = await asyncio.gather(*(agent.accept(answer, boot=f"boot-{n}") for n in range(6)))
    assert sorted(exits) == [False] + [True] * 5


async def test_lost_answer_is_repeated_until_the_accept(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    agent = await ready_standby(stage, replica)
    data = {"zone": "Ä", "a": [1.50, {"y": None, "b": 10**12}]}
    await replica.admission.admit(bot_request(bot_data=data))
    first = await agent.answer()
    await agent.open(stage)
    second = await agent.answer()
    assert (first.token, first.environment) == (second.token, second.environment)


async def test_observed_running_is_no_evidence_during_a_hand_over(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    agent = await ready_standby(stage, replica)
    bot = await admit(replica)
    await replica.observer.observe("process")
    assert stage.statuses(bot) == ["DEPLOYING"]
    assert not await agent.accept(await agent.answer())


@pytest.mark.parametrize("cordoned", [False, True])
async def test_bot_starts_cold_under_a_new_assignment_if_nothing_accepts(
    stage: Stage, cordoned: bool
) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    agent = await ready_standby(stage, replica)
    bot = await admit(replica)
    answer = await agent.answer()
    former = the_slot(stage)["assignment_id"]
    if cordoned:
        stage.rows("UPDATE bot_pool_slots SET cordoned = true, version = version + 1")
    stage.clock.move(4)
    await stage.step(replica)
    assert the_slot(stage)["status"] == "releasing"
    assert await agent.accept(answer), "the fallback came first"
    await stage.settle(replica)

    slot = the_slot(stage)
    assert slot["status"] == "busy"
    assert slot["assignment_id"] > former  # type: ignore[operator]
    assert stage.backend.runs == [agent.run_id, slot["assignment_id"]]
    assert stage.bot(bot)["attempts"] == 1, "the same attempt"
    assert await agent.accept(answer), "the old token gets the instruction to exit"
    counted = replica.metrics.instruments.hot_handovers.labels("google-meet", "cold")
    assert counted._value.get() == 1


async def test_late_fallback_changes_nothing_after_the_accept(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    agent = await ready_standby(stage, replica)
    bot = await admit(replica)
    answer = await agent.answer()
    stage.clock.move(4)
    arrived, proceed = asyncio.Event(), asyncio.Event()
    give_up = replica.outcome.give_up_handover

    async def held(*args: object, **options: object) -> bool:
        arrived.set()
        await proceed.wait()
        return await give_up(*args, **options)  # type: ignore[arg-type]

    object.__setattr__(replica.reconciler.deployer, "outcome", HeldOutcome(held))
    step = asyncio.create_task(stage.step(replica))
    await arrived.wait()
    assert not await agent.accept(answer)
    proceed.set()
    await step
    assert the_slot(stage)["status"] == "busy"
    assert stage.statuses(bot) == ["JOINING_CALL"]


class HeldOutcome:
    def __init__(self, give_up_handover: object) -> None:
        self.give_up_handover = give_up_handover


async def test_standby_that_exits_during_the_hand_over_falls_back(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    agent = await ready_standby(stage, replica)
    bot = await admit(replica)
    stage.backend.show(agent.container_id, ContainerState.EXITED)
    await replica.observer.observe("process")
    await stage.settle(replica)
    assert the_slot(stage)["status"] == "busy"
    assert stage.statuses(bot) == ["JOINING_CALL"]
    assert len(stage.backend.runs) == 2


async def test_user_stops_the_bot_before_the_accept(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    agent = await ready_standby(stage, replica)
    bot = await admit(replica)
    answer = await agent.answer()
    await replica.bot_stopper.stop(bot)
    assert stage.statuses(bot) == ["CANCELLED"]
    assert await agent.accept(answer)
    await stage.settle(replica)
    slot = the_slot(stage)
    assert (slot["status"], slot["standby"], slot["run_id"]) == ("idle", None, None)
    assert stage.backend.running == [], "a standby that was claimed once is stopped"


async def test_user_stops_the_bot_during_the_fallback(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    await ready_standby(stage, replica)
    bot = await admit(replica)
    stage.clock.move(4)
    arrived, proceed = stage.backend.hold("stop")
    step = asyncio.create_task(stage.step(replica))
    await step
    release = asyncio.create_task(stage.step(replica))
    await arrived.wait()
    await replica.bot_stopper.stop(bot)
    proceed.set()
    await release
    await stage.settle(replica)
    assert stage.statuses(bot) == ["CANCELLED"]
    assert the_slot(stage)["status"] == "idle"
    assert len(stage.backend.runs) == 1


async def test_restart_after_the_accept_is_evidence_of_an_exit(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    agent = await ready_standby(stage, replica)
    bot = await admit(replica)
    assert not await agent.accept(await agent.answer())
    late = await replica.standby_polls.wait(agent.slot_id, agent.run_id, boot_id="boot-1", wait_s=0)
    assert late.should_exit
    assert stage.statuses(bot) == ["JOINING_CALL"], "a late poll of the same boot proves nothing"
    restarted = await replica.standby_polls.wait(
        agent.slot_id, agent.run_id, boot_id="boot-2", wait_s=0
    )
    assert restarted.should_exit
    assert stage.bot(bot)["failure_code"] == "container_exited"


async def test_restart_keeps_the_end_that_the_first_boot_reported(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    agent = await ready_standby(stage, replica)
    bot = await admit(replica)
    answer = await agent.answer()
    assert not await agent.accept(answer)
    assert answer.handover is not None
    await replica.agents.report(answer.handover.assignment_id, bot, BotStatus.CALL_ENDED, None)
    await replica.standby_polls.wait(agent.slot_id, agent.run_id, boot_id="boot-2", wait_s=0)
    assert stage.statuses(bot) == ["DONE"]


async def test_restart_before_the_accept_gets_the_same_answer(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    agent = await ready_standby(stage, replica)
    bot = await admit(replica)
    first = await agent.answer()
    restarted = StandbyAgent(replica, the_slot(stage), boot="boot-2")
    await restarted.open(stage)
    second = await restarted.answer()
    assert second.token == first.token
    assert not await restarted.accept(second)
    assert await agent.accept(first), "the first boot's late accept"
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_bot_gets_a_standby_that_still_starts_and_waits_for_its_poll(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    stage.rows("INSERT INTO known_images VALUES ('process', 'here', 'demo', botpool_now())")
    await keep(stage, replica)
    assert the_slot(stage)["claim_rank"] == 1
    bot = await admit(replica)
    assert the_slot(stage)["phase"] == "handing_over"
    stage.clock.move(60)
    await stage.step(replica)
    assert the_slot(stage)["phase"] == "handing_over", "the time counts from the first poll"
    agent = StandbyAgent(replica, the_slot(stage))
    await agent.open(stage)
    assert not await agent.accept(await agent.answer())
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_bot_takes_over_a_standby_whose_start_is_not_allowed_yet(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    await replica.liveness.check()
    await replica.standby_keeper.keep()
    assert the_slot(stage)["phase"] == "creating"
    bot = await admit(replica)
    assert the_slot(stage)["standby"] is None
    await stage.settle(replica)
    assert stage.statuses(bot) == ["JOINING_CALL"]
    assert stage.backend.runs == [the_slot(stage)["assignment_id"]]


async def test_other_replica_holds_the_poll_and_answers_after_a_notification(
    stage: Stage,
) -> None:
    owner = await stage.replica(hot_pool(1, max_size=1))
    claimer = await stage.replica(hot_pool(1, max_size=1))
    owner.wakeups.start()
    while not owner.wakeups.listening:
        await asyncio.sleep(0.01)
    agent = await ready_standby(stage, owner)
    bot = await admit(claimer)
    answer = await agent.answer()  # No loop reads: only the notification can answer.
    assert answer.handover is not None and answer.handover.bot_id == bot
    await owner.wakeups.stop()


async def test_read_of_own_hand_overs_replaces_a_lost_notification(stage: Stage) -> None:
    owner = await stage.replica(hot_pool(1, max_size=1))
    claimer = await stage.replica(hot_pool(1, max_size=1))
    agent = await ready_standby(stage, owner)
    await admit(claimer)  # The owner does not listen.
    await owner.standby_polls.answer_and_close()
    assert (await agent.answer()).handover is not None


async def test_heartbeat_or_report_before_the_accept_changes_nothing(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    agent = await ready_standby(stage, replica)
    bot = await admit(replica)
    answer = await agent.answer()
    assert answer.handover is not None
    assignment = answer.handover.assignment_id
    await replica.agents.heartbeat(assignment, bot)
    assert not await replica.agents.report(assignment, bot, BotStatus.IN_CALL, None)
    assert the_slot(stage)["phase"] == "handing_over"


async def test_bot_that_is_claimed_while_the_poll_is_recorded_is_handed_over(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    await keep(stage, replica)
    agent = StandbyAgent(replica, the_slot(stage))
    bots: list[BotId] = []

    async def open_and_claim(*arguments: Any, **parameters: Any) -> PolledSlot | None:
        slot = await open_poll(*arguments, **parameters)
        bots.append(await admit(replica))
        return slot

    monkeypatch.setattr(standby_polls, "open_poll", open_and_claim)
    await agent.open(stage)
    answer = await agent.answer()
    assert answer.handover is not None and [answer.handover.bot_id] == bots


async def test_standby_that_returns_to_a_replica_gets_its_bot_there(stage: Stage) -> None:
    first = await stage.replica(hot_pool(1, max_size=1))
    second = await stage.replica(hot_pool(1, max_size=1))
    agent = await ready_standby(stage, first)
    other = StandbyAgent(second, the_slot(stage))
    await other.open(stage)
    assert the_slot(stage)["poll_owner"] == second.identity.owner
    await agent.open(stage)  # The first replica still knows the agent's former poll.
    bot = await admit(first)
    answer = await agent.answer()
    assert answer.handover is not None and answer.handover.bot_id == bot
