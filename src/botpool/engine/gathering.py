"""Gathering: what waits while one statement is under way goes together in the next.

A lone caller waits for nobody. Under load a statement carries as many as came in the meantime, in
the order in which they came, so that a commit and a round trip are paid once for all of them.

One bad item never fails the others: if a batch fails, and the database has undone it, each of its
items is tried alone and gets its own answer. Only an outage fails all, since nobody can know what
was committed. What happens if the process dies, comes twice or late is the affair of the statement.
"""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from botpool.domain.errors import DatabaseUnavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")

Work: TypeAlias = Callable[[Sequence[Item]], Awaitable[Sequence[Answer | Exception]]]
"""Does what the items ask for in one transaction; their answers, in the same order."""


@dataclass(frozen=True, slots=True)
class _Asked(Generic[Item, Answer]):
    item: Item
    answer: "asyncio.Future[Answer]"


class Gathering(Generic[Item, Answer]):
    def __init__(
        self,
        name: str,
        work: "Work[Item, Answer]",
        *,
        at_once: int,
        apart_by: Callable[[Item], Hashable] = id,
    ) -> None:
        """`apart_by`: items that are the same by it never travel together."""
        self._name = name
        self._work = work
        self._at_once = at_once
        self._apart_by = apart_by
        self._waiting: list[_Asked[Item, Answer]] = []
        self._working: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Would one who asks now wait behind others?"""
        return self._working is not None and not self._working.done()

    async def ask(self, item: Item) -> Answer:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Asked(item, answer))
        if not self.is_busy:
            # In a context of its own: what the first caller has bound is not the others' affair.
            self._working = asyncio.create_task(
                self._run(), name=self._name, context=contextvars.Context()
            )
        return await answer

    async def _run(self) -> None:
        while batch := self._next_batch():
            try:
                await self._serve(batch)
            except BaseException:
                # We are being ended: nobody may wait for an answer that does not come.
                for asked in (*batch, *self._waiting):
                    asked.answer.cancel()
                self._waiting.clear()
                raise

    def _next_batch(self) -> list[_Asked[Item, Answer]]:
        batch: dict[Hashable, _Asked[Item, Answer]] = {}
        left = []
        for asked in self._waiting:
            if asked.answer.done():
                continue  # Its caller has gone.
            mark = self._apart_by(asked.item)
            if len(batch) < self._at_once and mark not in batch:
                batch[mark] = asked
            else:
                left.append(asked)
        self._waiting = left
        return list(batch.values())

    async def _serve(self, batch: Sequence[_Asked[Item, Answer]]) -> None:
        try:
            answers = await self._work([asked.item for asked in batch])
            assert len(answers) == len(batch), "an answer for each"
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, DatabaseUnavailable):
                for asked in batch:
                    await self._serve([asked])
                return
            answers = [error] * len(batch)
        for asked, answer in zip(batch, answers, strict=True):
            if asked.answer.done():
                continue
            if isinstance(answer, Exception):
                asked.answer.set_exception(answer)
            else:
                asked.answer.set_result(answer)
