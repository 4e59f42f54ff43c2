"""Scheduled joins: due bots wait in their containers, and move or end until they join.

Decision 0053 lists each transition with what happens if the process dies before or after it, if it
happens twice, and if it comes late.
"""

import asyncio
from datetime import timedelta

import pytest

from botpool.domain.errors import BotHasStarted, JoinTimeRefused
from botpool.domain.observation import ContainerState
from botpool.domain.states import BotStatus
from botpool.engine.admission.bookings import BotUpdate
from tests.support.invariants import assert_invariants
from tests.support.replicas import CALLER, Stage, bot_request, pool
from tests.support.scheduled_bots import (
    HOUR,
    MINUTE,
    NOW,
    book,
    booking,
    due,
    move,
    waiting_bot,
)

# Due bots.


async def test_due_bot_starts_before_its_time_and_waits_in_its_container(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    bot_id, assignment = await waiting_bot(stage, replica)
    slot = stage.slot_of(bot_id)
    assert slot["status"] == "busy"
    bot = stage.bot(bot_id)
    assert (bot["status"], bot["join_at"]) == ("DEPLOYING", NOW + HOUR)
    (now,) = stage.rows("SELECT botpool_now() AS at")
    assert now["at"] < NOW + HOUR
    view = await replica.agents.find(assignment)
    assert view.join_in_ms == (NOW + HOUR - now["at"]).total_seconds() * 1000
    # A report before the time is not applied; the answer says how long to wait.
    assert not await replica.agents.report(assignment, bot_id, BotStatus.JOINING_CALL, None)
    assert (await replica.agents.permission_to_join(assignment))[0] == view.join_in_ms
    stage.clock.move(view.join_in_ms / 1000)
    assert await replica.agents.report(assignment, bot_id, BotStatus.JOINING_CALL, None)
    assert not await replica.agents.report(assignment, bot_id, BotStatus.JOINING_CALL, None)
    assert booking(stage, bot_id)["joined_at"] == NOW + HOUR
    await stage.end(replica, bot_id)
    await stage.settle(replica)
    assert booking(stage, bot_id)["ended_at"] is not None
    assert_invariants(stage.url)


async def test_observation_does_not_let_a_waiting_bot_join(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=1.0))
    bot_id = (await book(replica, NOW + HOUR)).bot.id
    await due(stage, replica, NOW + HOUR)
    await stage.settle(replica)
    assert (stage.slot_of(bot_id)["status"], stage.statuses(bot_id)) == ("busy", ["DEPLOYING"])


async def test_bot_that_starts_after_its_time_joins_at_once_and_is_late(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=1.0))
    bot_id = (await book(replica, NOW + HOUR)).bot.id
    stage.clock.move(3610)
    await replica.due_bots.poll()
    await stage.settle(replica)
    assert stage.statuses(bot_id) == ["JOINING_CALL"]
    assert booking(stage, bot_id)["joined_at"] == NOW + HOUR + timedelta(seconds=10)


async def test_agent_that_does_not_ask_joins_with_its_next_report(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=1.0))
    bot_id, assignment = await waiting_bot(stage, replica)
    assert await replica.agents.report(assignment, bot_id, BotStatus.IN_CALL, None)
    assert stage.statuses(bot_id) == ["IN_CALL"]


async def test_bot_without_an_agent_joins_at_its_time(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=1.0, heartbeats="none"))
    bot_id = (await book(replica, NOW + HOUR)).bot.id
    await due(stage, replica, NOW + HOUR)
    await stage.settle(replica)
    await replica.due_bots.poll()
    assert stage.statuses(bot_id) == ["DEPLOYING"]
    stage.clock.move(3600)
    await replica.due_bots.poll()
    assert stage.statuses(bot_id) == ["JOINING_CALL"]


async def test_two_replicas_start_a_due_bot_once(stage: Stage) -> None:
    replicas = [await stage.replica(pool(4)) for _ in range(3)]
    bot_id = (await book(replicas[0], NOW + HOUR)).bot.id
    stage.clock.move(3600)
    await asyncio.gather(*(replica.due_bots.poll() for replica in replicas))
    assert len(stage.rows("SELECT 1 FROM assignments WHERE bot_id = %s", bot_id)) == 1
    assert_invariants(stage.url)


async def test_restart_across_the_due_moment_starts_the_bot_at_the_first_poll(stage: Stage) -> None:
    first = await stage.replica(pool(1, reservable=1.0))
    bot_id = (await book(first, NOW + HOUR)).bot.id
    stage.clock.move(3590)
    second = await stage.replica(pool(1, reservable=1.0))
    await second.due_bots.poll()
    assert stage.statuses(bot_id) == ["DEPLOYING"]


async def test_arrival_number_and_queue_timeout_begin_when_the_bot_is_due(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=0.0))
    late = (await book(replica, NOW + HOUR, queue_timeout_ms=600_000)).bot.id
    await stage.run_bot(replica)
    early = (await replica.admission.admit(bot_request(queue_timeout_ms=600_000))).bot.id
    stage.clock.move(3000)
    stage.rows("UPDATE bot_pool_queue SET timeout_at = timeout_at + interval '1 hour'")
    await replica.due_bots.poll()
    queue = stage.rows("SELECT bot_id, timeout_at FROM bot_pool_queue ORDER BY priority, arrival")
    assert [row["bot_id"] for row in queue] == [early, late]
    assert queue[1]["timeout_at"] == NOW + timedelta(seconds=3600)


async def test_due_reserved_bots_go_first_and_pass_the_live_quota(stage: Stage) -> None:
    replica = await stage.replica(pool(2, reservable=1.0))
    later = (await book(replica, NOW + HOUR + MINUTE)).bot.id
    sooner = (await book(replica, NOW + HOUR)).bot.id
    stage.rows("UPDATE tenants SET max_live = 0, live = 0 WHERE id = 1")
    queued = (await replica.admission.admit(bot_request())).bot.id
    stage.clock.move(3600)
    stage.rows("UPDATE bot_pool_queue SET timeout_at = timeout_at + interval '2 hours'")
    stage.rows("UPDATE pools SET max_size = 1")
    stage.rows("DELETE FROM bot_pool_slots WHERE number = 2")
    await replica.due_bots.poll()
    assert stage.statuses(sooner, later, queued) == ["DEPLOYING", "QUEUED", "QUEUED"]
    await stage.settle(replica)
    await stage.end(replica, sooner)
    await stage.settle(replica)
    assert stage.statuses(later, queued) == ["DEPLOYING", "QUEUED"]


async def test_requeued_bot_keeps_its_reservation_and_arrival_number(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=1.0))
    bot_id = (await book(replica, NOW + HOUR)).bot.id
    await due(stage, replica, NOW + HOUR)
    arrival = stage.bot(bot_id)["arrival"]
    await stage.step(replica)
    stage.backend.show(stage.slot_of(bot_id)["container_id"], ContainerState.ERROR)
    await replica.observer.observe("process")
    await stage.settle(replica)
    bot = stage.bot(bot_id)
    assert (bot["attempts"], bot["arrival"]) == (2, arrival)
    assert (booking(stage, bot_id)["ended_at"], booking(stage, bot_id)["reserved"]) == (None, True)
    moves = stage.rows(
        "SELECT to_state FROM history WHERE bot_id = %s AND kind = 'bot.status' ORDER BY id", bot_id
    )
    assert [row["to_state"] for row in moves][:5] == [
        "SCHEDULED",
        "PENDING",
        "DEPLOYING",
        "QUEUED",
        "DEPLOYING",
    ]


# Moves and cancellations.


async def test_moved_bot_moves_its_booking(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=1.0))
    booked = (await book(replica, NOW + 24 * HOUR)).bot
    before = booking(stage, booked.id)
    moved = (await move(replica, booked.id, NOW + 24 * HOUR + 10 * MINUTE)).bot
    assert (moved.status, moved.reserved) == ("SCHEDULED", True), "its own row does not count"
    after = booking(stage, booked.id)
    assert after["starts_at"] - before["starts_at"] == 10 * MINUTE
    assert after["ends_at"] - before["ends_at"] == 10 * MINUTE
    other = await book(replica, NOW + 48 * HOUR)
    clash = (await move(replica, other.bot.id, NOW + 24 * HOUR)).bot
    assert clash.reserved is False
    kinds = [
        row["kind"]
        for row in stage.rows("SELECT kind FROM history WHERE bot_id = %s ORDER BY id", booked.id)
    ]
    assert kinds == ["bot.status", "bot.moved"]


async def test_queued_bot_that_moves_later_is_scheduled_again(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=0.0))
    await stage.run_bot(replica)
    bot_id = (await book(replica, NOW + HOUR)).bot.id
    await due(stage, replica, NOW + HOUR)
    assert stage.statuses(bot_id) == ["QUEUED"]
    await move(replica, bot_id, NOW + 5 * HOUR)
    assert stage.statuses(bot_id) == ["SCHEDULED"]
    assert stage.rows("SELECT 1 FROM bot_pool_queue") == []
    assert booking(stage, bot_id)["due_at"] is None
    assert_invariants(stage.url)
    stage.clock.move(4 * 3600)
    await replica.due_bots.poll()
    assert stage.statuses(bot_id) == ["QUEUED"]


async def test_plain_queued_bot_can_be_scheduled(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=1.0))
    await stage.run_bot(replica)
    queued = (await replica.admission.admit(bot_request())).bot.id
    moved = (await move(replica, queued, NOW + 24 * HOUR)).bot
    assert (moved.status, moved.reserved) == ("SCHEDULED", True)


async def test_moved_bot_that_waits_in_its_container_gets_the_new_time(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=1.0))
    bot_id, assignment = await waiting_bot(stage, replica)
    await move(replica, bot_id, NOW + 2 * HOUR)
    (now,) = stage.rows("SELECT botpool_now() AS at")
    remaining = (NOW + 2 * HOUR - now["at"]).total_seconds() * 1000
    assert (await replica.agents.heartbeat(assignment, bot_id)).join_in_ms == remaining
    assert not await replica.agents.report(assignment, bot_id, BotStatus.JOINING_CALL, None)
    assert await replica.agents.permission_to_join(assignment) == (remaining, False)
    assert_invariants(stage.url)


async def test_move_and_cancel_after_the_join_say_what_happened(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=1.0))
    bot_id, assignment = await waiting_bot(stage, replica)
    stage.clock.move(3600)
    await replica.agents.report(assignment, bot_id, BotStatus.JOINING_CALL, None)
    with pytest.raises(BotHasStarted, match="JOINING_CALL"):
        await move(replica, bot_id, NOW + 5 * HOUR)
    await stage.end(replica, bot_id)
    with pytest.raises(BotHasStarted, match="ended as DONE at 2026-01-05T"):
        await move(replica, bot_id, NOW + 5 * HOUR)
    _, changed = await replica.bot_stopper.stop(bot_id)
    assert not changed


async def test_waiting_bot_is_cancelled_before_it_joins(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=1.0))
    bot_id, assignment = await waiting_bot(stage, replica)
    _, changed = await replica.bot_stopper.stop(bot_id)
    assert changed
    assert stage.statuses(bot_id) == ["CANCELLED"]
    stage.clock.move(3600)
    assert not await replica.agents.report(assignment, bot_id, BotStatus.JOINING_CALL, None)
    assert await replica.agents.permission_to_join(assignment) == (None, True)
    await stage.settle(replica)
    assert booking(stage, bot_id)["ended_at"] is not None
    assert_invariants(stage.url)


async def test_name_and_priority_change_before_the_bot_has_a_slot(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=1.0))
    bot_id = (await book(replica, NOW + HOUR)).bot.id
    changes = BotUpdate(priority=7, bot_display_name="Notes")
    bot = (await replica.bookings.update(bot_id, changes, CALLER)).bot
    assert (bot.priority, bot.bot_display_name) == (7, "Notes")
    await due(stage, replica, NOW + HOUR)
    with pytest.raises(BotHasStarted, match="got its slot at"):
        await replica.bookings.update(bot_id, changes, CALLER)


async def test_changes_of_a_bot_are_made_together_or_not_at_all(stage: Stage) -> None:
    """A bot that is moved to now gets its slot at once, and its other changes still apply."""
    replica = await stage.replica(pool(1, reservable=1.0))
    bot_id = (await book(replica, NOW + 24 * HOUR)).bot.id
    changes = BotUpdate(join_at=NOW + MINUTE, bot_display_name="Notes", priority=7)
    bot = (await replica.bookings.update(bot_id, changes, CALLER)).bot
    assert (bot.bot_display_name, bot.priority, bot.join_at) == ("Notes", 7, NOW + MINUTE)
    assert bot.assigned_at is not None
    late = BotUpdate(join_at=NOW + 2 * HOUR, bot_display_name="Late")
    with pytest.raises(BotHasStarted, match="got its slot at"):
        await replica.bookings.update(bot_id, late, CALLER)
    other = (await book(replica, NOW + 48 * HOUR)).bot.id
    too_far = BotUpdate(join_at=NOW + 24_000 * HOUR, bot_display_name="Never")
    with pytest.raises(JoinTimeRefused):
        await replica.bookings.update(other, too_far, CALLER)
    kept = [
        (stage.bot(each)["bot_display_name"], stage.bot(each)["join_at"])
        for each in (bot_id, other)
    ]
    assert kept == [("Notes", NOW + MINUTE), ("Botpool", NOW + 48 * HOUR)]
    assert_invariants(stage.url)


async def test_concurrent_moves_to_the_last_capacity_give_one_reservation(stage: Stage) -> None:
    replicas = [await stage.replica(pool(2, reservable=0.5)) for _ in range(2)]
    bots = [(await book(replicas[0], NOW + n * 24 * HOUR)).bot.id for n in (2, 4)]
    moved = await asyncio.gather(
        *(move(replica, bot, NOW + 24 * HOUR) for replica, bot in zip(replicas, bots, strict=True))
    )
    assert sorted(bool(each.bot.reserved) for each in moved) == [False, True]
