"""Gathering: what waits while one statement is under way goes together in the next.

A lone caller waits for nobody. Under load a statement carries as many as came in the meantime, in
the order in which they came, so that a commit and a round trip are paid once for all of them.

One bad item never fails the others: if a batch fails, and the database has undone it, each of its
items is tried alone and gets its own answer. Only an outage fails all, since nobody can know what
was committed. What happens if the process dies, comes twice or late is the affair of the statement.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import Context
from typing import Generic, TypeAlias, TypeVar

from botpool.domain.errors import DatabaseUnavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_PATIENCE_S = 0.05
"""How long a few wait for company, or for the end of what is under way."""

Work: TypeAlias = Callable[[Sequence[Item]], Awaitable[Sequence[Answer | Exception]]]
"""Does what the items ask for in one transaction; their answers, in the same order."""


_Asked: TypeAlias = tuple[Item, asyncio.Future[Answer]]


class Gathering(Generic[Item, Answer]):
    def __init__(
        self,
        name: str,
        work: "Work[Item, Answer]",
        *,
        at_once: int,
        lanes: int = 1,
        every_s: float = 0,
        apart_by: Callable[[Item], Hashable] = id,
        is_idle: Callable[[], bool] = lambda: False,
    ) -> None:
        """`lanes`: how many statements may be under way side by side. One begins beside others
        with as many items as the largest of them, with enough, or after a while: small ones cost
        each item more.

        `every_s`: how long after the last one a statement may begin, where nobody is in a hurry.
        `apart_by`: items that are the same by it never travel together.
        `is_idle`: has the server nothing of ours to do?
        """
        self._name = name
        self._work = work
        self._at_once = at_once
        self._lanes = lanes
        self._every_s = every_s
        self._next_at = 0.0
        self._apart_by = apart_by
        self._is_idle = is_idle
        self._waiting: list[_Asked[Item, Answer]] = []
        self._enough = max(1, at_once // 4)
        self._serving = 0
        self._under_way: list[int] = []
        self._later: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_busy(self) -> bool:
        """Is anybody being served?"""
        return self._serving > 0

    @property
    def _is_about_to_take(self) -> bool:
        """Has a statement begun that does not carry anybody yet? It takes all who wait."""
        return self._serving > len(self._under_way)

    async def ask(self, item: Item) -> Answer:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if not self._is_about_to_take:
            self._begin()
        return await answer

    def _begin(self) -> None:
        """Begin a statement if those who wait are worth one, and else in a while."""
        if self._is_worth_it():
            self._begin_now()
        elif self._waiting and self._later is None:
            self._later = asyncio.get_running_loop().call_later(_PATIENCE_S, self._begin_late)

    def _begin_late(self) -> None:
        """What is under way takes long: it may wait for a lock, and those here for another."""
        self._later = None
        self._begin_now()

    def _begin_now(self) -> None:
        """Begin a statement, if anybody waits, nobody is about to take them and a lane is free."""
        if not self._waiting or self._is_about_to_take or self._serving >= self._lanes:
            return
        self._serving += 1
        # In a context of its own: what the first caller has bound is not the others' affair.
        task = asyncio.create_task(self._serve(), name=self._name, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _is_worth_it(self) -> bool:
        """Are there enough to begin now? Always, if nobody else would take them when it is done."""
        largest = max(self._under_way, default=0)
        return len(self._waiting) >= max(1, min(largest, self._enough))

    async def _serve(self) -> None:
        batch: Sequence[_Asked[Item, Answer]] = ()
        try:
            while True:
                await self._take_time()
                if batch := self._next_batch():
                    await self._serve_beside(batch)
                if not self._is_worth_it():
                    break
        except BaseException:
            # We are being ended: nobody may wait for an answer that does not come.
            for _, answer in (*batch, *self._waiting):
                answer.cancel()
            self._waiting.clear()
            raise
        finally:
            # In the same step as the look that found too few: who asks after it begins anew.
            self._serving -= 1
        self._begin()  # In a while, if there were a few.

    async def _serve_beside(self, batch: Sequence[_Asked[Item, Answer]]) -> None:
        self._under_way.append(len(batch))
        try:
            self._begin()  # There may be more than one statement takes.
            await self._serve_together(batch)
        finally:
            self._under_way.remove(len(batch))

    async def _take_time(self) -> None:
        if not self._every_s:
            return
        now = asyncio.get_running_loop().time()
        if (early_s := self._next_at - now) > 0:
            await asyncio.sleep(early_s)
        self._next_at = max(now, self._next_at) + self._every_s

    def _room(self) -> int:
        """How many the next statement takes.

        A burst at a server that has nothing else to do is shared among the lanes: it works on all
        of them at once, and on one while we read another's answers. Only where each share is worth
        a statement, and not what fills one: then there is more behind it, and it pays to be full.
        """
        waiting = sum(not answer.done() for _, answer in self._waiting)
        if self._lanes * self._enough <= waiting < self._at_once and self._is_idle():
            return -(-waiting // self._lanes)
        return self._at_once

    def _next_batch(self) -> list[_Asked[Item, Answer]]:
        batch: dict[Hashable, _Asked[Item, Answer]] = {}
        left = []
        room = self._room()
        for asked in self._waiting:
            item, answer = asked
            if answer.done():
                continue  # Its caller has gone.
            mark = self._apart_by(item)
            if len(batch) < room and mark not in batch:
                batch[mark] = asked
            else:
                left.append(asked)
        self._waiting = left
        return list(batch.values())

    async def _serve_together(self, batch: Sequence[_Asked[Item, Answer]]) -> None:
        try:
            answers = await self._work([item for item, _ in batch])
            assert len(answers) == len(batch), "an answer for each"
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, DatabaseUnavailable):
                for asked in batch:
                    await self._serve_together([asked])
                return
            answers = [error] * len(batch)
        for (_, awaited), answer in zip(batch, answers, strict=True):
            if awaited.done():
                continue
            if isinstance(answer, Exception):
                awaited.set_exception(answer)
            else:
                awaited.set_result(answer)
