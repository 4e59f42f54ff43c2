"""Bookings: exact reservations, held slots, and bots that will probably be late."""

import asyncio
from datetime import datetime, timedelta

import pytest

from botpool.domain.bookings import nearest_free_join
from botpool.domain.errors import JoinTimeRefused, NoReservation, PoolDrained
from botpool.domain.states import BotStatus
from botpool.store.bookings import list_bookings
from tests.support.invariants import assert_invariants
from tests.support.replicas import MEET, Stage, bot_request, pool
from tests.support.scheduled_bots import (
    HOUR,
    MINUTE,
    NOW,
    book,
    booking,
    due,
    held,
    move,
)

# Booking.


async def test_booking_is_reserved_up_to_the_reservable_share(stage: Stage) -> None:
    replica = await stage.replica(pool(10))
    booked = [(await book(replica, NOW + 24 * HOUR)).bot for _ in range(10)]
    assert [bot.status for bot in booked] == [BotStatus.SCHEDULED] * 10
    assert [bot.reserved for bot in booked] == [True] * 8 + [False] * 2
    assert all(bot.on_time_probability is not None for bot in booked)
    assert booked[0].on_time_probability > booked[9].on_time_probability
    assert_invariants(stage.url)


async def test_fifty_concurrent_bookings_reserve_exactly_the_capacity(stage: Stage) -> None:
    replicas = [await stage.replica(pool(40)) for _ in range(3)]
    booked = await asyncio.gather(*(book(replicas[n % 3], NOW + 24 * HOUR) for n in range(50)))
    assert sum(bool(admitted.bot.reserved) for admitted in booked) == 32


async def test_fifty_concurrent_bookings_within_the_hold_reserve_exactly_the_capacity(
    stage: Stage,
) -> None:
    replicas = [await stage.replica(pool(40)) for _ in range(3)]
    booked = await asyncio.gather(*(book(replicas[n % 3], NOW + 20 * MINUTE) for n in range(50)))
    assert sum(bool(admitted.bot.reserved) for admitted in booked) == 32
    assert held(stage) == 32


async def test_meetings_that_follow_each_other_share_a_slot(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=1.0))
    first = await book(replica, NOW + 24 * HOUR, expected_duration_ms=1_800_000)
    ends_at = booking(stage, first.bot.id)["ends_at"]
    start_s = 602
    clash = await book(replica, ends_at + timedelta(seconds=start_s - 1))
    follows = await book(replica, ends_at + timedelta(seconds=start_s))
    assert (clash.bot.reserved, follows.bot.reserved) == (False, True)


async def test_required_reservation_is_refused_with_the_nearest_free_time(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=1.0))
    at = NOW + 24 * HOUR
    await book(replica, at, expected_duration_ms=1_800_000)
    with pytest.raises(NoReservation) as refused:
        await book(replica, at + MINUTE, require_reservation=True, expected_duration_ms=1_800_000)
    free = refused.value.nearest_free
    assert free is not None
    assert free.strftime("%Y-%m-%dT%H:%M:%SZ") in str(refused.value)
    assert len(stage.rows("SELECT 1 FROM bots")) == 1
    again = await book(replica, free, require_reservation=True, expected_duration_ms=1_800_000)
    assert again.bot.reserved


async def test_two_requests_for_the_last_capacity_get_one_reservation(stage: Stage) -> None:
    one, other = [await stage.replica(pool(1, reservable=1.0)) for _ in range(2)]
    results = await asyncio.gather(
        book(one, NOW + 24 * HOUR, require_reservation=True),
        book(other, NOW + 24 * HOUR, require_reservation=True),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["AdmittedBot", "NoReservation"]


async def test_repeated_booking_returns_the_first_bot(stage: Stage) -> None:
    replica = await stage.replica(pool(4))
    booked = await asyncio.gather(*(book(replica, NOW + 24 * HOUR, "k") for _ in range(5)))
    assert len({admitted.bot.id for admitted in booked}) == 1
    assert sum(admitted.replayed for admitted in booked) == 4
    assert len(stage.rows("SELECT 1 FROM bookings")) == 1


@pytest.mark.parametrize("moment", [NOW - 2 * MINUTE, NOW + timedelta(days=400)])
async def test_past_and_distant_times_are_refused(stage: Stage, moment: datetime) -> None:
    replica = await stage.replica(pool(4))
    with pytest.raises(JoinTimeRefused):
        await book(replica, moment)
    assert stage.rows("SELECT 1 FROM bots") == []


async def test_drained_pool_books_nothing(stage: Stage) -> None:
    replica = await stage.replica(pool(4))
    await replica.pools.drain(MEET, drained=True, reason="test")
    with pytest.raises(PoolDrained):
        await book(replica, NOW + HOUR)


async def test_booking_quota_counts_in_all_pools(stage: Stage) -> None:
    replica = await stage.replica(pool(10), pool(10, "teams"))
    stage.rows("UPDATE tenants SET max_booked = 3, max_live = 5, live = 0 WHERE id = 1")
    booked = await asyncio.gather(
        *(book(replica, NOW + 24 * HOUR, pool_name=MEET) for _ in range(3)),
        *(book(replica, NOW + 24 * HOUR, pool_name="teams") for _ in range(3)),
    )
    assert sum(bool(admitted.bot.reserved) for admitted in booked) == 3
    with pytest.raises(NoReservation, match="maxBooked"):
        await book(replica, NOW + 24 * HOUR, require_reservation=True)


# The hold.


async def test_unreserved_bots_leave_the_slots_that_bookings_need(stage: Stage) -> None:
    replica = await stage.replica(pool(4, hold_s=1800.0, reservable=0.5))
    await book(replica, NOW + 20 * MINUTE)
    await book(replica, NOW + 20 * MINUTE)
    assert held(stage) == 2
    bots = [(await replica.admission.admit(bot_request())).bot for _ in range(3)]
    assert [bot.status for bot in bots] == ["DEPLOYING", "DEPLOYING", "QUEUED"]
    await stage.settle(replica)
    await stage.end(replica, bots[0].id)
    await stage.settle(replica)
    assert stage.statuses(bots[2].id) == ["JOINING_CALL"], "a slot beyond the hold serves the queue"
    assert held(stage) == 2
    assert_invariants(stage.url)


async def test_hold_begins_when_the_booking_comes_near(stage: Stage) -> None:
    replica = await stage.replica(pool(2, hold_s=1800.0, reservable=0.5))
    await book(replica, NOW + 3 * HOUR)
    await replica.due_bots.poll()
    assert held(stage) == 0
    stage.clock.move(2.4 * 3600)
    await replica.due_bots.poll()
    assert held(stage) == 1


async def test_cancelled_booking_gives_its_slot_back(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=1.0))
    booked = await book(replica, NOW + 20 * MINUTE)
    queued = (await replica.admission.admit(bot_request())).bot
    assert queued.status == "QUEUED"
    await replica.bot_stopper.stop(booked.bot.id)
    await replica.due_bots.poll()
    assert stage.statuses(booked.bot.id, queued.id) == ["CANCELLED", "DEPLOYING"]


async def test_booking_within_the_hold_without_a_free_slot_is_not_reserved(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=1.0))
    await stage.run_bot(replica)
    booked = await book(replica, NOW + 20 * MINUTE)
    assert booked.bot.reserved is False
    with pytest.raises(NoReservation):
        await book(replica, NOW + 20 * MINUTE, require_reservation=True)


# Bookings that exceed the capacity, and bots at risk.


async def test_bot_that_runs_longer_extends_its_booking(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=1.0))
    first = (await book(replica, NOW + HOUR, expected_duration_ms=600_000)).bot.id
    await due(stage, replica, NOW + HOUR)
    await stage.settle(replica)
    stage.clock.move(4 * 3600)
    next_bot = await book(replica, NOW + 5 * HOUR - 8 * MINUTE)
    assert next_bot.bot.reserved is False, "the first bot still has the slot"
    await stage.end(replica, first)
    await stage.settle(replica)
    assert (await move(replica, next_bot.bot.id, NOW + 6 * HOUR)).bot.reserved


async def test_lowered_maximum_cancels_no_booking_and_raises_at_risk(stage: Stage) -> None:
    replica = await stage.replica(pool(4, reservable=1.0))
    bots = [(await book(replica, NOW + 24 * HOUR)).bot.id for _ in range(4)]
    await replica.pools.configure([pool(2, reservable=1.0)])
    await replica.due_bots.poll()
    await replica.due_bots.poll()
    assert [booking(stage, bot)["at_risk"] is not None for bot in bots] == [
        False,
        False,
        True,
        True,
    ]
    assert stage.statuses(*bots) == ["SCHEDULED"] * 4
    events = stage.rows("SELECT bot_id, reason FROM history WHERE kind = 'bot.at_risk' ORDER BY id")
    assert [event["bot_id"] for event in events] == bots[2:], "once each"
    refused = await book(replica, NOW + 24 * HOUR)
    assert refused.bot.reserved is False


async def test_drain_raises_at_risk_and_cancels_no_booking(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    bot_id = (await book(replica, NOW + 40 * MINUTE)).bot.id
    await replica.pools.drain(MEET, drained=True, reason="test")
    await replica.due_bots.poll()
    found = (await replica.admission.find(bot_id)).bot
    assert (found.status, found.at_risk) == ("SCHEDULED", "its pool is drained")
    await replica.pools.drain(MEET, drained=False, reason="test")
    stage.clock.move(2400)
    await replica.due_bots.poll()
    assert stage.statuses(bot_id) == ["DEPLOYING"]


async def test_bot_that_waits_too_long_for_a_slot_is_at_risk(stage: Stage) -> None:
    replica = await stage.replica(pool(1, reservable=0.0))
    await stage.run_bot(replica)
    bot_id = (await book(replica, NOW + HOUR, queue_timeout_ms=600_000)).bot.id
    stage.clock.move(3606)
    await replica.due_bots.poll()
    found = (await replica.admission.find(bot_id)).bot
    assert found.status == "QUEUED"
    assert found.at_risk is not None


# Times of the record, and questions of others.


async def test_start_follows_the_measured_p99(stage: Stage) -> None:
    replica = await stage.replica(pool(2, reservable=1.0))
    bot_id = (await book(replica, NOW + 24 * HOUR)).bot.id
    assert booking(stage, bot_id)["starts_at"] == NOW + 24 * HOUR - timedelta(seconds=602)
    stage.rows("INSERT INTO known_images VALUES ('process', 'here', 'demo', botpool_now())")
    run = await stage.run_bot(replica)
    stage.rows(
        "UPDATE assignments SET warm = true, running_at = assigned_at + interval '20 s' "
        "WHERE bot_id = %s",
        run.bot.id,
    )
    stage.clock.move(120)
    await replica.due_bots.measure()
    assert booking(stage, bot_id)["starts_at"] == NOW + 24 * HOUR - timedelta(seconds=22)


async def test_bookings_of_a_pool_in_a_period(stage: Stage) -> None:
    replica = await stage.replica(pool(4))
    near = (await book(replica, NOW + HOUR)).bot.id
    await book(replica, NOW + 48 * HOUR)
    found = await list_bookings(
        replica.database, pool_name=MEET, after=NOW, before=NOW + 5 * HOUR, limit=100
    )
    assert [(each.bot_id, each.join_at, each.reserved) for each in found] == [
        (near, NOW + HOUR, True)
    ]
    free = nearest_free_join(
        found, join_at=NOW + HOUR, lead=MINUTE, duration=HOUR, limit=1, earliest=NOW + MINUTE
    )
    assert free == found[0].ends_at + MINUTE
