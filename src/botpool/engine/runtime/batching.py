"""Batching: requests that arrive while a statement runs share the next statement.

A lone caller is served at once. Under load one statement carries the requests that arrived in the
meantime, in arrival order, so that they share one commit and one round trip.

One bad item never fails the others: when a batch fails and the database has rolled it back, each
item is retried alone and gets its own result. Only a lost database fails the whole batch, because
the outcome of the commit is then unknown. The statement itself decides what a crash, a repeated or
a late item means.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import Context
from typing import Generic, TypeAlias, TypeVar

from botpool.domain.errors import DatabaseUnavailable

Item = TypeVar("Item")
Result = TypeVar("Result")

_MAX_DELAY_S = 0.05
"""How long a small batch waits for more items while another batch is in flight."""

Handler: TypeAlias = Callable[[Sequence[Item]], Awaitable[Sequence[Result | Exception]]]
"""Runs the items in one transaction and returns their results in the same order."""


_Pending: TypeAlias = tuple[Item, asyncio.Future[Result]]


class Batcher(Generic[Item, Result]):
    """Collects submitted items and passes them to a handler in batches."""

    def __init__(
        self,
        name: str,
        handler: "Handler[Item, Result]",
        *,
        max_batch: int,
        max_in_flight: int = 1,
        min_interval_s: float = 0,
        distinct_by: Callable[[Item], Hashable] = id,
        is_idle: Callable[[], bool] = lambda: False,
    ) -> None:
        """Configure the batches.

        `max_in_flight`: how many batches may run at the same time. A further batch starts once it
        is as large as the largest running one, or a quarter of `max_batch`, or after a short delay.
        `min_interval_s`: the minimum time between the starts of two batches.
        `distinct_by`: two items with the same key never share a batch.
        `is_idle`: whether the database currently runs none of our statements.
        """
        self._name = name
        self._handler = handler
        self._max_batch = max_batch
        self._max_in_flight = max_in_flight
        self._min_interval_s = min_interval_s
        self._next_start_at = 0.0
        self._distinct_by = distinct_by
        self._is_idle = is_idle
        self._pending: list[_Pending[Item, Result]] = []
        self._worthwhile = max(1, max_batch // 4)
        self._workers = 0
        self._running_sizes: list[int] = []
        self._delayed_start: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_busy(self) -> bool:
        """Whether a batch is running or about to run."""
        return self._workers > 0

    @property
    def _has_worker_without_batch(self) -> bool:
        """Whether a worker has started that will take everything pending."""
        return self._workers > len(self._running_sizes)

    async def submit(self, item: Item) -> Result:
        """Add the item to the next batch and return its result."""
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._pending.append((item, result))
        if not self._has_worker_without_batch:
            self._start_or_delay()
        return await result

    def _start_or_delay(self) -> None:
        """Start a worker if the pending items justify a batch, else after a short delay."""
        if self._is_worthwhile():
            self._start()
        elif self._pending and self._delayed_start is None:
            loop = asyncio.get_running_loop()
            self._delayed_start = loop.call_later(_MAX_DELAY_S, self._start_delayed)

    def _start_delayed(self) -> None:
        """Start although the batch is small: a running batch may be waiting for a lock."""
        self._delayed_start = None
        self._start()

    def _start(self) -> None:
        """Start a worker if items are pending, none is about to take them and one is allowed."""
        at_limit = self._workers >= self._max_in_flight
        if not self._pending or self._has_worker_without_batch or at_limit:
            return
        self._workers += 1
        # A context of its own: the batch must not inherit the first caller's log context.
        task = asyncio.create_task(self._work(), name=self._name, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _is_worthwhile(self) -> bool:
        """Whether to start now. Always, when no running batch would pick the items up."""
        largest = max(self._running_sizes, default=0)
        return len(self._pending) >= max(1, min(largest, self._worthwhile))

    async def _work(self) -> None:
        batch: Sequence[_Pending[Item, Result]] = ()
        try:
            while True:
                await self._respect_interval()
                if batch := self._take_batch():
                    await self._run_counted(batch)
                if not self._is_worthwhile():
                    break
        except BaseException:
            # The worker is being cancelled: no caller may wait for a result that never comes.
            for _, result in (*batch, *self._pending):
                result.cancel()
            self._pending.clear()
            raise
        finally:
            # No await since the check above, so a later submit starts a new worker.
            self._workers -= 1
        self._start_or_delay()

    async def _run_counted(self, batch: Sequence[_Pending[Item, Result]]) -> None:
        self._running_sizes.append(len(batch))
        try:
            self._start_or_delay()  # There may be more items than one batch takes.
            await self._run(batch)
        finally:
            self._running_sizes.remove(len(batch))

    async def _respect_interval(self) -> None:
        if not self._min_interval_s:
            return
        now = asyncio.get_running_loop().time()
        if (wait_s := self._next_start_at - now) > 0:
            await asyncio.sleep(wait_s)
        self._next_start_at = max(now, self._next_start_at) + self._min_interval_s

    def _batch_limit(self) -> int:
        """Return how many items the next batch takes.

        A burst at an idle database is split between the workers, so that the server handles one
        part while the client reads the results of another. A full batch is not split, because
        more items follow it.
        """
        pending = sum(not result.done() for _, result in self._pending)
        workers = self._max_in_flight
        if workers * self._worthwhile <= pending < self._max_batch and self._is_idle():
            return -(-pending // workers)
        return self._max_batch

    def _take_batch(self) -> list[_Pending[Item, Result]]:
        batch: dict[Hashable, _Pending[Item, Result]] = {}
        remaining = []
        limit = self._batch_limit()
        for pending in self._pending:
            item, result = pending
            if result.done():
                continue  # The caller was cancelled.
            key = self._distinct_by(item)
            if len(batch) < limit and key not in batch:
                batch[key] = pending
            else:
                remaining.append(pending)
        self._pending = remaining
        return list(batch.values())

    async def _run(self, batch: Sequence[_Pending[Item, Result]]) -> None:
        try:
            results = await self._handler([item for item, _ in batch])
            assert len(results) == len(batch), "the handler returns one result per item"
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, DatabaseUnavailable):
                for pending in batch:
                    await self._run([pending])
                return
            results = [error] * len(batch)
        for (_, future), result in zip(batch, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
