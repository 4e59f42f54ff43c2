"""A stop that cannot be confirmed: the slot is shown, and no bot gets it.

A crash before the record of the node: the next observation records it. A crash after it: the record
is a column. The same observation again writes nothing. A confirmation after the node's return frees
the slot as usual.
"""

import asyncio
from datetime import UTC, datetime

from botpool.domain.ids import BotId
from botpool.domain.observation import ContainerState
from botpool.engine.replica import Replica
from tests.support.invariants import assert_invariants
from tests.support.replicas import Stage, bot_request, pool

SINCE = datetime(2026, 1, 5, 9, 56, tzinfo=UTC)


async def stopped_on_lost_node(stage: Stage, replica: Replica) -> BotId:
    """A bot that ended after its node became unreachable."""
    bot = (await stage.run_bot(replica)).bot.id
    stage.backend.lose_node(str(stage.slot_of(bot)["container_id"]), "n3", SINCE)
    await stage.end(replica, bot)
    await stage.settle(replica)
    return bot


def unconfirmed(stage: Stage) -> tuple[object, ...]:
    (slot,) = stage.slots()
    return (
        slot["status"],
        slot["unconfirmed_reason"],
        slot["unconfirmed_node"],
        slot["unconfirmed_since"],
    )


async def test_running_bot_on_an_unreachable_node_goes_on(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot.id
    stage.backend.lose_node(str(stage.slots()[0]["container_id"]), "n3", SINCE)
    await stage.settle(replica)
    assert unconfirmed(stage) == ("busy", None, None, None)
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_slot_on_an_unreachable_node_is_not_handed_over(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await stopped_on_lost_node(stage, replica)
    waiting = (await replica.admission.admit(bot_request())).bot.id
    for _ in range(40):
        stage.clock.move(60)
        await stage.settle(replica)
        await replica.queue_poller.poll()
    assert unconfirmed(stage) == ("releasing", "node n3 is unreachable", "n3", SINCE)
    assert stage.backend.calls_of("delete") == [], "a deletion would prove nothing"
    assert stage.statuses(bot) == ["DONE"]
    assert stage.bot(waiting)["failure_code"] == "queue_timeout"
    assert_invariants(stage.url)


async def test_record_is_written_once_with_its_history(stage: Stage) -> None:
    replica, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    await stopped_on_lost_node(stage, replica)
    for _ in range(3):
        await other.observer.observe("process")
        stage.clock.move(60)
        await stage.settle(other)
    rows = stage.rows("SELECT reason, data FROM history WHERE kind = 'slot.stop_unconfirmed'")
    assert [row["reason"] for row in rows] == ["node n3 is unreachable"]
    assert rows[0]["data"]["node"] == "n3"
    assert rows[0]["data"]["since"].startswith("2026-01-05T09:56:00")


async def test_return_of_the_node_hands_the_slot_over(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await stopped_on_lost_node(stage, replica)
    waiting = (await replica.admission.admit(bot_request())).bot.id
    stage.backend.return_node(str(stage.slots()[0]["container_id"]))
    stage.clock.move(60)
    await stage.settle(replica)
    assert unconfirmed(stage) == ("busy", None, None, None)
    assert stage.slots()[0]["assigned_bot_id"] == waiting


async def test_return_of_the_node_with_a_running_container_clears_the_record(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await stopped_on_lost_node(stage, replica)
    container = stage.backend.containers[stage.slots()[0]["container_id"]]
    container.lost_node, stage.backend.stops_work = None, False
    await replica.observer.observe("process")
    assert unconfirmed(stage) == ("releasing", None, None, None)
    (last,) = stage.rows(
        "SELECT reason FROM history WHERE kind = 'slot.stop_unconfirmed' ORDER BY id DESC LIMIT 1"
    )
    assert last["reason"] == "its stop can be confirmed again"


async def test_observation_from_before_a_change_records_nothing(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await stopped_on_lost_node(stage, replica)
    stage.backend.containers[stage.slots()[0]["container_id"]].lost_node = None
    stage.backend.stops_work = False
    observed, proceed = stage.backend.hold_answer("observe")
    late = asyncio.create_task(replica.observer.observe("process"))
    await observed.wait()
    stage.rows("UPDATE bot_pool_slots SET version = version + 1")
    before = stage.slots()
    proceed.set()
    await late
    assert stage.slots() == before


async def test_unknown_state_without_a_lost_node_counts_when_the_stop_is_overdue(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot.id
    stage.backend.stops_work = False
    stage.backend.detail = "vanished without a proof of its end"
    stage.backend.show(str(stage.slots()[0]["container_id"]), ContainerState.UNKNOWN)
    await stage.end(replica, bot)
    await stage.settle(replica)
    assert unconfirmed(stage) == ("releasing", None, None, None)
    stage.clock.move(121)
    await stage.settle(replica)
    assert unconfirmed(stage)[:3] == ("releasing", "vanished without a proof of its end", None)
