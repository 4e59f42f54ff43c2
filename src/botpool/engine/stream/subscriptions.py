"""What one stream has still to be told, and how much of it may wait.

The reader puts in, the stream takes out. A stream that does not take in time loses what waits for
it instead of keeping it: whoever reads it must load the present state again anyway.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from botpool.domain.cursor import Cursor
from botpool.domain.records import Change

MOST_WAITING = 10_000
"""Changes that may wait for a stream."""
MOST_MISSED = 5_000
"""Of these, how many may have happened before it went on: the rest is room for what follows."""
_MOST_IN_BATCH = 200
"""What is written at once is in memory once more, until it is sent."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Changes of one range of transactions, in the order in which they happened.

    All streams share it, so that what is made of it need be made once: equal means the same.
    """

    since: int
    until: int
    changes: tuple[Change, ...]

    def cursor(self, change: Change) -> Cursor:
        """Where a stream stands once it has told this change."""
        return Cursor(since=self.since, until=self.until, seen=change.id)


def batches(since: int, until: int, changes: Sequence[Change]) -> list["Batch"]:
    """The changes of a range, in pieces that can be sent."""
    return [
        Batch(since=since, until=until, changes=tuple(changes[n : n + _MOST_IN_BATCH]))
        for n in range(0, len(changes), _MOST_IN_BATCH)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """What follows does not continue what came before: load the present state again."""

    cursor: Cursor
    reason: str


News: TypeAlias = Batch | Reset


class Subscription:
    """The news for one stream, in order. It is over when it was closed and all is taken."""

    def __init__(self, horizon: int, leave: Callable[["Subscription"], None]) -> None:
        self.horizon = horizon
        """What lies below has been put in."""
        self.over = False
        self._leave = leave
        self._news: deque[News] = deque()
        self._waiting = 0
        self._changed = asyncio.Event()

    @property
    def position(self) -> Cursor | None:
        """Where a stream stands that was told all there is; None while something waits for it."""
        return None if self._news else Cursor.at(self.horizon)

    def begin_with(self, missed: Sequence[News]) -> None:
        """What happened before the horizon, which was read after the first news came in."""
        self._news.extendleft(reversed(missed))
        self._waiting += sum(_size(news) for news in missed)
        self._changed.set()

    def put(self, news: News, *, horizon: int) -> None:
        if self.over:
            return
        self.horizon = horizon
        self._waiting += _size(news)
        if self._waiting > MOST_WAITING:
            self._news.clear()
            news = Reset(
                cursor=Cursor.at(horizon),
                reason=f"This stream was not read, and {MOST_WAITING} changes waited for it.",
            )
            self.over = True
        self._news.append(news)
        self._changed.set()

    def end(self) -> None:
        """Nothing more will come."""
        self.over = True
        self._changed.set()

    def close(self) -> None:
        """Nobody reads any more."""
        self.over = True
        self._news.clear()
        self._leave(self)

    async def take(self, *, within_s: float) -> News | None:
        """The next news, as soon as there is some; None after that time, and at the end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not self._news and not self.over:
                    self._changed.clear()
                    await self._changed.wait()
        if not self._news:
            return None
        news = self._news.popleft()
        self._waiting -= _size(news)
        return news


def _size(news: News) -> int:
    return len(news.changes) if isinstance(news, Batch) else 0
