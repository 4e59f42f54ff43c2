"""The batcher: waiting items share a batch, fail alone and never wait forever."""

import asyncio
from collections.abc import Sequence

import pytest

from botpool.domain.errors import DatabaseUnavailable
from botpool.engine.runtime.batching import Batcher


class Desk:
    """Answers with the item, doubled; holds its batches until it is let go on."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def work(self, items: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(items))
        await self.go_on.wait()
        if 13 in items:
            raise ValueError("13")
        if 99 in items:
            raise DatabaseUnavailable("down")
        return [ValueError("refused") if item == 7 else item * 2 for item in items]


async def asked(batcher: Batcher[int, int], *items: int) -> "list[asyncio.Task[int]]":
    tasks = [asyncio.create_task(batcher.submit(item)) for item in items]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_waiting_items_share_a_batch_in_order_of_arrival() -> None:
    desk = Desk()
    batcher = Batcher("test", desk.work, max_batch=3)
    desk.go_on.clear()
    first = await asked(batcher, 1)
    others = await asked(batcher, 2, 3, 4, 5)
    assert desk.batches == [[1]], "a lone caller is served at once"
    desk.go_on.set()
    assert await asyncio.gather(*first, *others) == [2, 4, 6, 8, 10]
    assert desk.batches == [[1], [2, 3, 4], [5]]
    assert not batcher.is_busy


async def test_item_submitted_as_last_result_arrives_is_handled() -> None:
    """The end of one round and the beginning of the next leave no gap between them."""
    desk = Desk()
    batcher = Batcher("test", desk.work, max_batch=10)
    async with asyncio.timeout(30):
        for number in range(1, 7):
            assert await batcher.submit(number) == number * 2
            await asyncio.gather(*(batcher.submit(number) for _ in range(3)))


async def test_failing_item_fails_alone() -> None:
    desk = Desk()
    batcher = Batcher("test", desk.work, max_batch=10)
    desk.go_on.clear()
    tasks = await asked(batcher, 1)
    tasks += await asked(batcher, 2, 13, 7, 4)
    desk.go_on.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [answers[0], answers[1], answers[4]] == [2, 4, 8]
    assert [str(answers[2]), str(answers[3])] == ["13", "refused"]


async def test_unavailable_database_fails_batch_without_retry() -> None:
    desk = Desk()
    batcher = Batcher("test", desk.work, max_batch=10)
    desk.go_on.clear()
    tasks = await asked(batcher, 1)
    tasks += await asked(batcher, 2, 99)
    desk.go_on.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(answer) for answer in answers] == [int, DatabaseUnavailable, DatabaseUnavailable]
    assert desk.batches == [[1], [2, 99]], "what may be committed must not be done again"
    assert await batcher.submit(3) == 6


async def test_item_of_cancelled_caller_is_dropped() -> None:
    desk = Desk()
    batcher = Batcher("test", desk.work, max_batch=10)
    desk.go_on.clear()
    (serving,) = await asked(batcher, 1)
    gone, stays = await asked(batcher, 2, 3)
    serving.cancel()
    gone.cancel()
    await asyncio.gather(serving, gone, return_exceptions=True)
    desk.go_on.set()
    assert await stays == 6
    assert desk.batches == [[1], [3]]


async def test_items_with_same_key_never_share_a_batch() -> None:
    desk = Desk()
    batcher = Batcher("test", desk.work, max_batch=10, distinct_by=lambda item: item % 10)
    desk.go_on.clear()
    tasks = await asked(batcher, 1)
    tasks += await asked(batcher, 2, 12, 3)
    desk.go_on.set()
    assert await asyncio.gather(*tasks) == [2, 4, 24, 6]
    assert desk.batches == [[1], [2, 3], [12]]


async def test_two_batches_run_concurrently() -> None:
    desk = Desk()
    batcher = Batcher("test", desk.work, max_batch=10, max_in_flight=2)
    desk.go_on.clear()
    tasks = await asked(batcher, 1)
    tasks += await asked(batcher, 2)
    tasks += await asked(batcher, 3, 4)
    assert desk.batches == [[1], [2]]
    desk.go_on.set()
    assert await asyncio.gather(*tasks) == [2, 4, 6, 8]
    assert desk.batches == [[1], [2], [3, 4]]


class Counter:
    """Takes batches and ends each on request."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self._ends: list[asyncio.Future[None]] = []

    async def work(self, items: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(items))
        self._ends.append(asyncio.get_running_loop().create_future())
        await self._ends[-1]
        return list(items)

    async def end(self, number: int) -> None:
        self._ends[number].set_result(None)
        for _ in range(5):
            await asyncio.sleep(0)


async def test_second_batch_starts_at_size_of_first() -> None:
    counter = Counter()
    batcher = Batcher("test", counter.work, max_batch=40, max_in_flight=2)
    tasks = await asked(batcher, 1, 2, 3)
    tasks += await asked(batcher, 4, 5)
    assert counter.batches == [[1, 2, 3]]
    tasks += await asked(batcher, 6)
    assert counter.batches == [[1, 2, 3], [4, 5, 6]]
    tasks += await asked(batcher, 7, 8)
    await counter.end(0)
    assert len(counter.batches) == 2, "the lane that is free waits for more, or for the other's end"
    await counter.end(1)
    assert counter.batches[2:] == [[7, 8]]
    await counter.end(2)
    assert [task.result() for task in tasks] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert not batcher.is_busy


async def test_quarter_of_maximum_starts_second_batch() -> None:
    counter = Counter()
    batcher = Batcher("test", counter.work, max_batch=8, max_in_flight=2)
    tasks = await asked(batcher, *range(8))
    tasks += await asked(batcher, 8)
    assert len(counter.batches) == 1
    tasks += await asked(batcher, 9)
    assert counter.batches[1:] == [[8, 9]]
    await counter.end(1)
    await counter.end(0)
    assert all(task.done() for task in tasks)


async def test_small_batch_starts_after_delay_beside_hanging_one() -> None:
    counter = Counter()
    batcher = Batcher("test", counter.work, max_batch=40, max_in_flight=2)
    tasks = await asked(batcher, 1, 2, 3)
    tasks += await asked(batcher, 4)
    await asyncio.sleep(0.2)
    assert counter.batches == [[1, 2, 3], [4]], "one who came later"
    tasks += await asked(batcher, 5)
    await counter.end(1)
    assert len(counter.batches) == 2
    await asyncio.sleep(0.2)
    assert counter.batches[2:] == [[5]], "and one whom the free lane left"
    await counter.end(2)
    await counter.end(0)
    assert all(task.done() for task in tasks)
    assert not batcher.is_busy


async def test_more_items_than_one_batch_start_second_at_once() -> None:
    counter = Counter()
    batcher = Batcher("test", counter.work, max_batch=4, max_in_flight=2)
    tasks = await asked(batcher, *range(6))
    await asyncio.sleep(0)
    assert counter.batches == [[0, 1, 2, 3], [4, 5]]
    await counter.end(0)
    await counter.end(1)
    assert all(task.done() for task in tasks)


@pytest.mark.parametrize(
    ("items", "is_idle", "batches"),
    [
        (8, True, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (9, True, [[0, 1, 2, 3, 4], [5, 6, 7, 8]]),
        (8, False, [[0, 1, 2, 3, 4, 5, 6, 7]]),
        (7, True, [[0, 1, 2, 3, 4, 5, 6]]),
        (16, True, [list(range(16))]),
    ],
    ids=["shared", "odd", "busy server", "too few", "a full one"],
)
async def test_burst_at_idle_database_is_split_between_workers(
    items: int, is_idle: bool, batches: list[list[int]]
) -> None:
    counter = Counter()
    batcher = Batcher(
        "test",
        counter.work,
        max_batch=16,
        max_in_flight=2,
        is_idle=lambda: is_idle and not counter.batches,
    )
    tasks = await asked(batcher, *range(items))
    await asyncio.sleep(0)
    assert counter.batches == batches
    for number in range(len(batches)):
        await counter.end(number)
    assert [task.result() for task in tasks] == list(range(items))
    assert not batcher.is_busy


async def test_minimum_interval_collects_items_into_one_batch() -> None:
    desk = Desk()
    batcher = Batcher("test", desk.work, max_batch=10, min_interval_s=0.5)
    assert await batcher.submit(1) == 2
    assert desk.batches == [[1]], "the first item is served at once"
    tasks = await asked(batcher, 2)
    tasks += await asked(batcher, 3)
    assert await asyncio.gather(*tasks) == [4, 6]
    assert desk.batches == [[1], [2, 3]]
    await asyncio.sleep(1.1)
    (late,) = await asked(batcher, 4)
    assert desk.batches[2:] == [[4]], "nor does one who comes later"
    assert await late == 8


async def test_cancelled_worker_cancels_its_callers() -> None:
    desk = Desk()
    batcher = Batcher("test", desk.work, max_batch=10)
    desk.go_on.clear()
    tasks = await asked(batcher, 1, 2)
    for task in asyncio.all_tasks():
        if task.get_name() == "test":
            task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(30):
            await asyncio.gather(*tasks)
