"""The number of standbys follows the windows of the week and the scheduled bots."""

from collections import Counter
from datetime import timedelta

from botpool.domain.warm import WarmWindow
from tests.support.replicas import Stage
from tests.support.scheduled_bots import HOUR, NOW, book
from tests.support.standbys import hot_pool, keep


def standbys(stage: Stage) -> int:
    """Count the slots that have a standby or get one."""
    kinds = Counter(slot["standby"] for slot in stage.slots())
    return kinds["starting"] + kinds["ready"]


async def test_window_raises_the_floor_and_its_end_lowers_it(stage: Stage) -> None:
    starts, ends = NOW + timedelta(minutes=10), NOW + timedelta(minutes=11)
    window = WarmWindow(
        days=tuple(range(7)),
        starts=f"{starts:%H:%M}",
        ends=f"{ends:%H:%M}",
        timezone="UTC",
        hot=3,
    )
    replica = await stage.replica(hot_pool(1, windows=(window,)))
    await keep(stage, replica)
    assert standbys(stage) == 1
    stage.clock.move(600)
    await keep(stage, replica)
    assert standbys(stage) == 3
    stage.clock.move(60)
    await keep(stage, replica)
    assert standbys(stage) == 1


async def test_scheduled_bot_raises_the_floor_in_time(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(0, ahead_of_schedule=True))
    bot_id = (await book(replica, NOW + HOUR)).bot.id
    (booked,) = stage.rows("SELECT starts_at FROM bookings WHERE bot_id = %s", bot_id)
    lead = NOW + HOUR - booked["starts_at"]
    await keep(stage, replica)
    assert standbys(stage) == 0
    stage.clock.move((HOUR - 2 * lead).total_seconds() + 1)
    await keep(stage, replica)
    assert standbys(stage) == 1


async def test_scheduled_bots_raise_no_floor_unless_the_pool_asks_for_it(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(0, ahead_of_schedule=False))
    await book(replica, NOW + HOUR)
    stage.clock.move(HOUR.total_seconds() - 700)
    await keep(stage, replica)
    assert standbys(stage) == 0
