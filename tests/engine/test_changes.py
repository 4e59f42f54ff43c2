"""The stream of changes: nothing lost, nothing twice, in the order in which it happened."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import psycopg
import pytest

from botpool.domain.errors import DatabaseUnavailable, ShuttingDown
from botpool.domain.history import Change
from botpool.engine.stream.changes import ChangeStream
from botpool.engine.stream.subscriptions import (
    MAX_MISSED,
    MAX_WAITING,
    Batch,
    Reset,
    Subscription,
)
from tests.support.clock import Clock
from tests.support.replicas import Stage, bot_request, pool

PATIENCE_S = 30.0
QUIET_S = 0.3
"""Several rounds of a reader that reads every hundredth of a second."""


@asynccontextmanager
async def reader(stage: Stage, *, interval_s: float = 0.01) -> AsyncIterator[ChangeStream]:
    database = (await stage.replica(pool(3))).database
    changes = ChangeStream(database, interval_s=interval_s)
    yield changes
    await changes.close()


@pytest.fixture
async def changes(stage: Stage) -> AsyncIterator[ChangeStream]:
    async with reader(stage) as made:
        yield made


@contextmanager
def open_transaction(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url) as connection:
        yield connection


def write(connection: psycopg.Connection, reason: str, times: int = 1) -> None:
    connection.execute(
        "INSERT INTO history (kind, reason) SELECT 'test', %s FROM generate_series(1, %s)",
        [reason, times],
    )


def happen(stage: Stage, reason: str, times: int = 1) -> None:
    with open_transaction(stage.url) as connection:
        write(connection, reason, times)


async def received(subscription: Subscription, until: str) -> list[str]:
    """The reasons of all changes up to and with that one."""
    return [change.reason for _, change in await read(subscription, until)]


async def read(subscription: Subscription, until: str) -> list[tuple[str, Change]]:
    """All changes up to and with that one, each with its id in the stream."""
    found: list[tuple[str, Change]] = []
    async with asyncio.timeout(PATIENCE_S):
        while not found or found[-1][1].reason != until:
            news = await subscription.take(within_s=PATIENCE_S)
            assert isinstance(news, Batch), news
            found += [(str(news.cursor(each)), each) for each in news.changes]
    return found


async def nothing_for_now(subscription: Subscription) -> None:
    assert await subscription.take(within_s=QUIET_S) is None


async def reset_of(subscription: Subscription) -> Reset:
    async with asyncio.timeout(PATIENCE_S):
        news = await subscription.take(within_s=PATIENCE_S)
    assert isinstance(news, Reset), news
    return news


async def test_late_commit_is_not_lost(stage: Stage, changes: ChangeStream) -> None:
    subscription = await changes.subscribe(None)
    with open_transaction(stage.url) as late:
        write(late, "the earlier id")
        happen(stage, "the later id")
        await nothing_for_now(subscription)
        late.commit()
    assert await received(subscription, "the later id") == ["the earlier id", "the later id"]


async def test_changes_arrive_in_their_order(stage: Stage, changes: ChangeStream) -> None:
    """A transaction that began first may have waited for the one that began after it."""
    subscription = await changes.subscribe(None)
    with open_transaction(stage.url) as first:
        first.execute("SELECT pg_current_xact_id()")
        happen(stage, "done while the first one waited")
        write(first, "done afterwards")
    assert await received(subscription, "done afterwards") == [
        "done while the first one waited",
        "done afterwards",
    ]


async def test_stream_resumes_after_any_event(stage: Stage, changes: ChangeStream) -> None:
    subscription = await changes.subscribe(None)
    with open_transaction(stage.url) as late:
        write(late, "1")
        happen(stage, "2")
        write(late, "3")
    happen(stage, "4")
    whole = await read(subscription, "4")
    assert [change.reason for _, change in whole] == ["1", "2", "3", "4"]
    happen(stage, "5")
    for n, (event_id, _) in enumerate(whole, 1):
        resumed = await changes.subscribe(event_id)
        assert await received(resumed, "5") == ["1", "2", "3", "4", "5"][n:]
        resumed.close()


async def test_stream_resumes_at_another_replica(stage: Stage) -> None:
    async with reader(stage) as here, reader(stage, interval_s=2) as there:
        # There the reader runs already, and has read less than the cursor says.
        running = await there.subscribe(None)
        subscription = await here.subscribe(None)
        happen(stage, "1")
        ((event_id, _),) = await read(subscription, "1")
        resumed = await there.subscribe(event_id)
        happen(stage, "2")
        assert await received(resumed, "2") == ["2"]
        assert await received(running, "2") == ["1", "2"]


async def test_transaction_open_at_subscription_is_streamed(
    stage: Stage, changes: ChangeStream
) -> None:
    with open_transaction(stage.url) as late:
        write(late, "open")
        subscription = await changes.subscribe(None)
        resumed = await changes.subscribe(str(subscription.position))
    happen(stage, "after")
    assert (
        await received(subscription, "after")
        == await received(resumed, "after")
        == ["open", "after"]
    )


async def test_position_is_known_only_when_no_item_waits(
    stage: Stage, changes: ChangeStream
) -> None:
    """A stream that is cut off with items waiting must not resume behind them."""
    subscription = await changes.subscribe(None)
    begin = subscription.position
    assert begin is not None
    happen(stage, "missed")
    resumed = await changes.subscribe(str(begin))
    assert resumed.position is None
    assert await received(resumed, "missed") == ["missed"]
    again = await changes.subscribe(str(resumed.position))
    await nothing_for_now(again)


async def test_rolled_back_change_is_not_streamed(stage: Stage, changes: ChangeStream) -> None:
    subscription = await changes.subscribe(None)
    with open_transaction(stage.url) as undone:
        write(undone, "undone")
        undone.rollback()
    happen(stage, "done")
    assert await received(subscription, "done") == ["done"]


async def test_streams_share_one_reader(stage: Stage, changes: ChangeStream) -> None:
    subscriptions = [await changes.subscribe(None) for _ in range(10)]
    happen(stage, "one")
    taken = [await each.take(within_s=PATIENCE_S) for each in subscriptions]
    assert isinstance(taken[0], Batch)
    assert all(news is taken[0] for news in taken)
    assert changes.streams == 10


async def test_reader_stops_without_streams(stage: Stage, changes: ChangeStream) -> None:
    for subscription in [await changes.subscribe(None) for _ in range(3)]:
        subscription.close()
    async with asyncio.timeout(PATIENCE_S):
        while any(task.get_name() == "changes" for task in asyncio.all_tasks()):
            await asyncio.sleep(0.01)
    assert changes.streams == 0
    again = await changes.subscribe(None)
    happen(stage, "again")
    assert await received(again, "again") == ["again"]


async def test_unknown_cursor_resets_stream(stage: Stage, changes: ChangeStream) -> None:
    happen(stage, "before")
    epoch = (await changes.subscribe(None)).epoch
    rest = ("", "7", "x-y-z", "5-4-0", "1-9000000000000000000-1", "1-1-1 ", "٣-٣-٣")
    for unknown in ("", "5-4-0", *(f"{epoch}-{each}" for each in rest)):
        subscription = await changes.subscribe(unknown)
        reset = await reset_of(subscription)
        assert "not one of this installation" in reset.reason
    happen(stage, "after")
    assert await received(subscription, "after") == ["after"]
    # A stream that resumes with the id of that reset misses nothing since.
    resumed = await changes.subscribe(str(reset.cursor))
    assert await received(resumed, "after") == ["after"]


async def test_cursor_of_a_lost_history_resets_stream(stage: Stage, changes: ChangeStream) -> None:
    """A restored database issues the ids of the lost changes again."""
    subscription = await changes.subscribe(None)
    happen(stage, "lost")
    ((event_id, _),) = await read(subscription, "lost")
    stage.rows("SELECT botpool_begin_epoch('for a test', 0)")
    happen(stage, "after")
    resumed = await changes.subscribe(event_id)
    reset = await reset_of(resumed)
    assert "restored" in reset.reason
    again = await changes.subscribe(str(reset.cursor))
    happen(stage, "last")
    assert await received(again, "last") == ["last"]


async def test_new_epoch_resets_open_streams(stage: Stage, changes: ChangeStream) -> None:
    """Evidence of a restore may come from a container, after streams were opened."""
    subscription = await changes.subscribe(None)
    stage.rows("SELECT botpool_begin_epoch('for a test', 0)")
    reset = await reset_of(subscription)
    assert "restored" in reset.reason
    happen(stage, "after")
    assert await received(subscription, "after") == ["after"]
    resumed = await changes.subscribe(str(reset.cursor))
    assert await received(resumed, "after") == ["after"]


async def test_cursor_before_pruned_history_resets_stream(
    stage: Stage, changes: ChangeStream
) -> None:
    subscription = await changes.subscribe(None)
    happen(stage, "1")
    ((event_id, _),) = await read(subscription, "1")
    happen(stage, "2")
    happen(stage, "3")
    stage.rows("DELETE FROM history WHERE reason IN ('1', '2')")
    resumed = await changes.subscribe(event_id)
    assert "pruned" in (await reset_of(resumed)).reason


async def test_cursor_too_far_behind_resets_stream(stage: Stage, changes: ChangeStream) -> None:
    subscription = await changes.subscribe(None)
    begin = str(subscription.position)
    happen(stage, "many", MAX_MISSED - 1)
    happen(stage, "last")
    resumed = await changes.subscribe(begin)
    assert len(await received(resumed, "last")) == MAX_MISSED
    happen(stage, "one more")
    late = await changes.subscribe(begin)
    assert "More than" in (await reset_of(late)).reason


async def test_slow_stream_is_dropped(stage: Stage, changes: ChangeStream) -> None:
    slow, quick = await changes.subscribe(None), await changes.subscribe(None)
    for n in range(2):
        happen(stage, "many", MAX_WAITING // 2)
        happen(stage, f"round {n}")
        await received(quick, f"round {n}")
    reset = await reset_of(slow)
    assert slow.over
    assert "not read" in reset.reason
    assert changes.streams == 1
    happen(stage, "after")
    resumed = await changes.subscribe(str(reset.cursor))
    assert (await received(resumed, "after"))[-1] == "after"


async def test_too_many_changes_at_once_reset_streams(stage: Stage, changes: ChangeStream) -> None:
    subscription = await changes.subscribe(None)
    happen(stage, "too many", MAX_WAITING + 1)
    assert "at once" in (await reset_of(subscription)).reason
    happen(stage, "after")
    assert await received(subscription, "after") == ["after"]


async def test_long_transaction_resets_streams(
    stage: Stage, changes: ChangeStream, clock: Clock
) -> None:
    subscription = await changes.subscribe(None)
    with open_transaction(stage.url) as foreign:
        foreign.execute("SELECT pg_current_xact_id()")
        happen(stage, "held")
        clock.move(6)
        assert "long transaction" in (await reset_of(subscription)).reason
    assert await received(subscription, "held") == ["held"]


async def test_closing_ends_all_streams(changes: ChangeStream) -> None:
    subscription = await changes.subscribe(None)
    waiting = asyncio.create_task(subscription.take(within_s=PATIENCE_S))
    await asyncio.sleep(0)
    await changes.close()
    assert await waiting is None
    assert subscription.over
    with pytest.raises(ShuttingDown):
        await changes.subscribe(None)


async def test_unavailable_database_ends_all_streams(stage: Stage, changes: ChangeStream) -> None:
    """Else they would say that nothing happens."""
    subscription = await changes.subscribe(None)
    database = stage.replicas[0].database
    await database.close()
    async with asyncio.timeout(PATIENCE_S):
        while not subscription.over:
            await subscription.take(within_s=PATIENCE_S)
    with pytest.raises(DatabaseUnavailable):
        await changes.subscribe(None)


async def test_change_has_all_fields(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    subscription = await replica.changes.subscribe(None)
    secret = "https://meet.google.com/abc-defg-hij?pwd=hunter2"
    admitted = await replica.admission.admit(
        bot_request(meeting_url=secret, bot_data={"pin": "hunter2"})
    )
    await replica.pools.drain(
        bot_request().pool_name, drained=True, reason="test", correlation_id="c"
    )
    found = [change for _, change in await read(subscription, "test")]
    first, drained = found[0], next(each for each in found if each.kind == "pool.drain")
    assert (first.kind, first.to_state, first.bot_id) == ("bot.status", "PENDING", admitted.bot.id)
    assert first.correlation_id == "corr"
    assert (drained.from_state, drained.to_state) == ("open", "drained")
    assert {each.pool_name for each in found} == {"google-meet"}
    assert {each.slot_name for each in found} >= {"pool-google-meet-001"}
    assert "hunter2" not in repr(found)
    await replica.changes.close()
