"""Scheduled bots at both changes of daylight saving time, and while the database's clock jumps.

A join time is an instant. Neither the local time of the meeting nor the time zone of the database
moves the start of a bot, its booking or its join.
"""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from psycopg.conninfo import conninfo_to_dict

from botpool.domain.ids import AssignmentId, BotId
from botpool.domain.states import BotStatus
from botpool.engine.replica import Replica
from tests.support.invariants import assert_invariants
from tests.support.replicas import Stage, pool
from tests.support.scheduled_bots import HOUR, MINUTE, NOW, book, booking

BERLIN = ZoneInfo("Europe/Berlin")
TO_SUMMER = datetime(2026, 3, 29, 1, 30, tzinfo=BERLIN)
"""Half an hour before the clock goes from 02:00 to 03:00."""
FROM_SUMMER = datetime(2026, 10, 25, 1, 30, tzinfo=BERLIN)
"""An hour and a half before the clock goes from 03:00 back to 02:00."""
HALF_HOUR_MS = 1_800_000


async def replica_in_berlin(stage: Stage, at: datetime) -> Replica:
    """Return a replica whose sessions have the time zone of Berlin, with a frozen clock."""
    name = conninfo_to_dict(stage.url)["dbname"]
    stage.rows(f"ALTER DATABASE {name} SET timezone TO 'Europe/Berlin'")
    stage.clock.freeze(at.isoformat())
    return await stage.replica(pool(1, reservable=1.0))


async def assert_joins_at(
    stage: Stage, replica: Replica, bot_id: BotId, join_at: datetime, now: datetime
) -> None:
    """The bot starts a lead before its time by elapsed seconds, and joins at its time."""
    join_at = join_at.astimezone(UTC)  # Differences of local times ignore the clock change.
    lead = join_at - booking(stage, bot_id)["starts_at"]
    ahead_s = (join_at - lead).timestamp() - now.timestamp()
    stage.clock.move(ahead_s - 1)
    await replica.due_bots.poll()
    assert stage.statuses(bot_id) == ["SCHEDULED"], "a second before its start"
    stage.clock.move(1)
    await replica.due_bots.poll()
    await stage.settle(replica)
    slot = stage.slot_of(bot_id)
    assignment = AssignmentId(slot["assignment_id"])
    await replica.agents.identify(assignment, slot["container_id"], "boot")
    join_in_ms, _ = await replica.agents.permission_to_join(assignment)
    assert join_in_ms == lead.total_seconds() * 1000
    stage.clock.move(lead.total_seconds())
    assert await replica.agents.report(assignment, bot_id, BotStatus.JOINING_CALL, None)
    assert booking(stage, bot_id)["joined_at"].astimezone(UTC) == join_at
    assert_invariants(stage.url)


@pytest.mark.parametrize(
    ("before", "join_at", "elapsed"),
    [
        # 03:10 comes 40 minutes after 01:30, because 02:00 to 03:00 does not exist.
        (TO_SUMMER, datetime(2026, 3, 29, 3, 10, tzinfo=BERLIN), timedelta(minutes=40)),
        # The second 02:30 comes two hours after 01:30.
        (FROM_SUMMER, datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1), 2 * HOUR),
    ],
    ids=["to summer time", "from summer time"],
)
async def test_bot_joins_at_its_instant_across_the_clock_change(
    stage: Stage, before: datetime, join_at: datetime, elapsed: timedelta
) -> None:
    replica = await replica_in_berlin(stage, before)
    assert join_at.timestamp() - before.timestamp() == elapsed.total_seconds()
    bot_id = (await book(replica, join_at)).bot.id
    await assert_joins_at(stage, replica, bot_id, join_at, before)


async def test_meetings_on_both_sides_of_the_skipped_hour_overlap(stage: Stage) -> None:
    replica = await replica_in_berlin(stage, TO_SUMMER - 2 * HOUR)
    first = datetime(2026, 3, 29, 1, 50, tzinfo=BERLIN)
    second = datetime(2026, 3, 29, 3, 5, tzinfo=BERLIN)  # A quarter of an hour later.
    assert (await book(replica, first, expected_duration_ms=HALF_HOUR_MS)).bot.reserved
    assert not (await book(replica, second, expected_duration_ms=HALF_HOUR_MS)).bot.reserved


async def test_meetings_at_the_repeated_hour_do_not_overlap(stage: Stage) -> None:
    replica = await replica_in_berlin(stage, FROM_SUMMER - 2 * HOUR)
    first = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
    second = first.replace(fold=1)  # An hour later.
    for join_at in (first, second):
        booked = await book(replica, join_at, expected_duration_ms=HALF_HOUR_MS)
        assert booked.bot.reserved


@pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["forward", "back"])
async def test_jump_of_the_database_clock_loses_no_scheduled_bot(
    stage: Stage, jump: timedelta
) -> None:
    """PostgreSQL's clock decides: after a jump forward the bot is due at once, and late."""
    replica = await stage.replica(pool(1, reservable=1.0))
    join_at = NOW + 30 * MINUTE
    bot_id = (await book(replica, join_at)).bot.id
    stage.clock.move(jump.total_seconds())
    await replica.due_bots.poll()
    await stage.settle(replica)
    if jump > timedelta(0):
        assert stage.statuses(bot_id) == ["JOINING_CALL"]
    else:
        assert stage.statuses(bot_id) == ["SCHEDULED"]
        await assert_joins_at(stage, replica, bot_id, join_at, NOW + jump)


async def test_all_replicas_restart_across_the_due_moment(stage: Stage) -> None:
    """No replica runs from before the start until after the join time: late, not lost."""
    first = await stage.replica(pool(1, reservable=1.0))
    waiting = (await book(first, NOW + HOUR)).bot.id
    stage.clock.move(3700)
    second, third = [await stage.replica(pool(1, reservable=1.0)) for _ in range(2)]
    for replica in (second, third):
        await replica.due_bots.poll()
    await stage.settle(second)
    assert stage.statuses(waiting) == ["JOINING_CALL"]
    assert len(stage.rows("SELECT 1 FROM assignments")) == 1
    risk = stage.rows("SELECT reason FROM history WHERE kind = 'bot.at_risk'")
    assert len(risk) == 1, "Botpool warns about the late bot once"
