"""Standbys: their start, their polls, their replacement and their stop."""

import asyncio
from collections import Counter

import pytest

from botpool.domain.errors import BackendRefused
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.domain.tokens import standby_of
from tests.support.replicas import Stage, bot_request, pool
from tests.support.standbys import StandbyAgent, hot_pool, keep, ready_standby


def standbys(stage: Stage) -> Counter[str | None]:
    return Counter(slot["standby"] for slot in stage.slots())


async def open_all(stage: Stage, replica: object) -> list[StandbyAgent]:
    agents = [
        StandbyAgent(replica, slot)  # type: ignore[arg-type]
        for slot in stage.slots()
        if slot["standby"] == "starting"
    ]
    for agent in agents:
        await agent.open(stage)
    return agents


async def test_pool_is_filled_at_start_and_refilled_as_it_is_used(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(2, max_size=4))
    stage.rows("INSERT INTO known_images VALUES ('process', 'here', 'demo', botpool_now())")
    await keep(stage, replica)
    assert standbys(stage) == {"starting": 2}
    await open_all(stage, replica)
    await keep(stage, replica)
    assert standbys(stage) == {"ready": 2}
    await replica.admission.admit(bot_request())
    await keep(stage, replica)
    assert sorted(s["status"] for s in stage.slots()) == ["deploying", "idle", "idle"]
    assert standbys(stage) == {"ready": 2, "starting": 1}, "one of them hands over"


async def test_two_replicas_start_no_more_than_the_target(stage: Stage) -> None:
    replicas = [await stage.replica(hot_pool(3, max_size=9)) for _ in range(3)]
    for replica in replicas:
        await replica.liveness.check()
    await asyncio.gather(*(replica.standby_keeper.keep() for replica in replicas))
    assert standbys(stage) == {"starting": 3}


async def test_token_of_a_standby_names_its_slot_and_run_only(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1))
    await keep(stage, replica)
    (container,) = stage.backend.containers.values()
    (slot,) = stage.slots()
    token = container.environment["BOTPOOL_STANDBY_TOKEN"]
    assert standby_of(token, replica.identity.standby_keys) == (slot["id"], slot["run_id"])
    assert standby_of(token, (b"another key",)) is None
    assert standby_of(token.replace("bps", "bpa"), replica.identity.standby_keys) is None


@pytest.mark.parametrize("hot", [1, 0], ids=["standby", "bot"])
async def test_container_gets_the_limit_of_the_self_fence(stage: Stage, hot: int) -> None:
    policy = Policy(self_fence_s=899.5)
    replica = await stage.replica(hot_pool(1) if hot else pool(1), policy=policy)
    await (keep(stage, replica) if hot else stage.run_bot(replica))
    (container,) = stage.backend.containers.values()
    assert container.environment["BOTPOOL_SELF_FENCE_S"] == "900"


async def test_late_observation_of_a_former_standby_begins_no_epoch(stage: Stage) -> None:
    """The runs of former standbys are not kept: a slot with a later run may have had them."""
    replica = await stage.replica(hot_pool(1))
    agent = await ready_standby(stage, replica)
    await replica.epoch_watch.check()
    former, epoch = type(agent.run_id)(agent.run_id - 1), replica.epoch_watch.number
    assert not await replica.epoch_watch.report_if_unknown(former, agent.slot_id)
    assert replica.epoch_watch.number == epoch
    later = type(agent.run_id)(agent.run_id + 1)
    assert await replica.epoch_watch.report_if_unknown(later, agent.slot_id)


async def test_poll_of_another_run_must_exit(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1))
    agent = await ready_standby(stage, replica)
    answer = await replica.standby_polls.wait(
        agent.slot_id, type(agent.run_id)(agent.run_id - 1), boot_id="b", wait_s=5
    )
    assert answer.should_exit
    assert standbys(stage) == {"ready": 1}


async def test_poll_is_recorded_once_and_not_at_every_poll(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1))
    agent = await ready_standby(stage, replica)
    version = stage.slots()[0]["version"]
    await agent.open(stage)
    await agent.open(stage)
    assert stage.slots()[0]["version"] == version


async def test_poll_that_moves_to_another_replica_changes_the_owner(stage: Stage) -> None:
    first = await stage.replica(hot_pool(1))
    second = await stage.replica(hot_pool(1))
    agent = await ready_standby(stage, first)
    agent.replica = second
    await agent.open(stage)
    assert stage.slots()[0]["poll_owner"] == second.identity.owner
    # The former owner notices that its poll is over, and must not clear the new one.
    first.standby_polls.polls[agent.slot_id].waiter = None
    first.standby_polls.polls[agent.slot_id].last_at -= 60
    await first.standby_polls.answer_and_close()
    assert standbys(stage) == {"ready": 1}


async def test_standby_without_a_poll_is_not_ready_and_is_reset_in_the_end(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1))
    agent = await ready_standby(stage, replica)
    assert agent.poll is not None
    agent.poll.cancel()
    await asyncio.gather(agent.poll, return_exceptions=True)
    replica.standby_polls.polls[agent.slot_id].last_at -= 6
    await replica.standby_polls.answer_and_close()
    assert standbys(stage) == {"starting": 1}
    stage.clock.move(31)
    await stage.step(replica)
    assert stage.slots()[0]["status"] == "error"
    await stage.settle(replica)
    (slot,) = stage.slots()
    assert (slot["status"], slot["standby"], stage.backend.running) == ("idle", None, [])


async def test_polls_of_a_dead_replica_are_cleared_by_another(stage: Stage) -> None:
    dead = await stage.replica(hot_pool(1))
    await ready_standby(stage, dead)
    alive = await stage.replica(hot_pool(1))
    stage.clock.move(31)
    await alive.liveness.check()
    await alive.standby_keeper.keep()
    assert standbys(stage) == {"starting": 1}
    assert stage.slots()[0]["poll_owner"] is None


async def test_replica_that_only_seemed_dead_records_its_open_polls_again(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1))
    agent = await ready_standby(stage, replica)
    stage.clock.move(31)
    await replica.standby_keeper.keep()
    assert standbys(stage) == {"starting": 1}
    await replica.standby_polls.answer_and_close()
    assert standbys(stage) == {"ready": 1}
    await replica.admission.admit(bot_request())
    assert (await agent.answer()).handover is not None


async def test_replacement_of_an_old_standby_is_up_first(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=2, max_age_s=600))
    agent = await ready_standby(stage, replica)
    stage.clock.move(500)
    await keep(stage, replica)
    assert standbys(stage) == {"ready": 1}
    stage.clock.move(101)
    await keep(stage, replica)
    assert standbys(stage) == {"ready": 1, "starting": 1}
    await open_all(stage, replica)
    await replica.liveness.check()
    await replica.standby_keeper.keep()
    assert standbys(stage) == {"ready": 1, "stopping": 1}
    (stopping,) = [slot for slot in stage.slots() if slot["standby"] == "stopping"]
    assert stopping["id"] == agent.slot_id and stopping["claim_rank"] is None
    await stage.settle(replica)
    assert standbys(stage) == {"ready": 1, None: 1}


async def test_full_pool_replaces_an_old_standby_without_room(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1, max_age_s=600))
    await ready_standby(stage, replica)
    stage.clock.move(601)
    await keep(stage, replica)
    await keep(stage, replica)
    (slot,) = stage.slots()
    assert slot["standby"] == "starting" and len(stage.backend.runs) == 2


async def test_changed_settings_replace_standbys(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    await ready_standby(stage, replica)
    stage.clock.move(1)
    other = await stage.replica(pool(1, image="other", warm=hot_pool(1).warm))
    await keep(stage, other)
    await keep(stage, other)
    (slot,) = stage.slots()
    assert (slot["standby"], slot["image"]) == ("starting", "other")


async def test_standby_with_a_bot_is_not_replaced(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1, max_age_s=60))
    agent = await ready_standby(stage, replica)
    bot = (await replica.admission.admit(bot_request())).bot.id
    assert not await agent.accept(await agent.answer())
    stage.clock.move(61)
    await keep(stage, replica)
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_claim_and_stop_of_one_standby_exclude_each_other(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    await ready_standby(stage, replica)
    await asyncio.gather(replica.admission.admit(bot_request()), replica.standby_keeper.stop_all())
    (slot,) = stage.slots()
    if slot["standby"] == "stopping":
        assert slot["status"] == "idle"
    await stage.settle(replica)
    (slot,) = stage.slots()
    assert slot["status"] in ("deploying", "busy"), "the bot has the slot in the end"


@pytest.mark.parametrize("what", ["drain", "cordon", "hot = 0"])
async def test_drained_or_cordoned_slots_keep_no_standby(stage: Stage, what: str) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    agent = await ready_standby(stage, replica)
    match what:
        case "drain":
            await replica.pools.drain(pool(1).pool_name, drained=True, reason="test")
        case "cordon":
            await replica.pools.cordon(agent.slot_id, cordoned=True, reason="test")
        case _:
            replica = await stage.replica(pool(1))
    await keep(stage, replica)
    await keep(stage, replica)
    assert standbys(stage) == {None: 1}
    assert stage.backend.running == []


async def test_no_standby_starts_while_an_older_version_is_live(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1))
    stage.rows(
        "INSERT INTO liveness (replica, public_url, alive_at, heartbeats_at)"
        " VALUES ('older', 'http://x', botpool_now(), botpool_now())"
    )
    await keep(stage, replica)
    assert stage.slots() == []
    stage.clock.move(31)
    await keep(stage, replica)
    assert standbys(stage) == {"starting": 1}


async def test_refill_takes_no_slot_while_bots_wait(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=2))
    stage.rows("UPDATE pools SET drained_at = botpool_now()")
    stage.rows("UPDATE pools SET drained_at = NULL")
    for _ in range(3):
        await replica.admission.admit(bot_request())
    await keep(stage, replica)
    assert standbys(stage) == {None: 2}
    assert stage.rows("SELECT count(*) AS n FROM bot_pool_queue")[0]["n"] == 1


async def test_standby_that_exits_is_reset_and_started_again_after_a_pause(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=2))
    await keep(stage, replica)
    (slot,) = stage.slots()
    stage.backend.show(slot["container_id"], ContainerState.EXITED)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "error"
    await keep(stage, replica)
    assert standbys(stage) == {None: 1}, "no new slot instead"
    stage.clock.move(40)
    await keep(stage, replica)
    assert standbys(stage) == {"starting": 1}


async def test_refused_start_of_a_standby_resets_the_slot(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(1, max_size=1))
    stage.backend.fail("start", BackendRefused("process", "no such image"))
    await keep(stage, replica)
    (slot,) = stage.slots()
    assert (slot["standby"], slot["status"], slot["error_message"]) == (
        None,
        "idle",
        "process: no such image",
    )


@pytest.mark.parametrize("crash_before_answer", [False, True])
async def test_another_replica_continues_the_start_of_a_standby(
    stage: Stage, crash_before_answer: bool
) -> None:
    first = await stage.replica(hot_pool(1, max_size=1))
    second = await stage.replica(hot_pool(1, max_size=1))
    await first.liveness.check()
    await first.standby_keeper.keep()
    hold = stage.backend.hold if crash_before_answer else stage.backend.hold_answer
    arrived, _ = hold("start")
    step = asyncio.create_task(stage.step(first))
    await arrived.wait()
    for task in first.reconciler.under_way:
        task.cancel()
    await asyncio.gather(step, return_exceptions=True)
    stage.backend.release("start")
    stage.clock.move(120)
    await stage.settle(second)
    (slot,) = stage.slots()
    assert slot["start_issued_at"] is not None
    assert stage.backend.runs == [slot["run_id"]], "the run started once"
