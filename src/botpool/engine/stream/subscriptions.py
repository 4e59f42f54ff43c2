"""Subscriptions: the changes that wait to be sent on one stream, with a limit.

The reader of changes puts items in, and the stream takes them out. A stream that does not take its
items in time loses them and ends with a reset: its client has to load the current state again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from botpool.domain.cursor import Cursor
from botpool.domain.history import Change
from botpool.domain.ids import TenantId

MAX_WAITING = 10_000
"""How many changes may wait for one stream."""
MAX_MISSED = 5_000
"""How many of them may be from before a resumed stream; the rest is for changes that follow."""
_MAX_BATCH = 200
"""A batch is held in memory a second time, serialized, until it is sent."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Changes of one range of transactions, in order.

    All streams share one batch, so that its serialized form can be cached: batches compare by
    identity.
    """

    epoch: int
    since: int
    until: int
    changes: tuple[Change, ...]

    def cursor(self, change: Change) -> Cursor:
        """Return the cursor of a stream that has sent this change."""
        return Cursor(epoch=self.epoch, since=self.since, until=self.until, last_id=change.id)


@lru_cache(maxsize=16)
def batch_of_tenant(batch: Batch, tenant_id: TenantId) -> Batch | None:
    """Return the changes of one tenant's bots; None without any.

    Cursors stay valid: one that names the last of these changes has also passed the others before
    it. Cached, so that all streams of a tenant share one batch, too.
    """
    own = tuple(each for each in batch.changes if each.tenant_id == tenant_id)
    return replace(batch, changes=own) if own else None


def batches(epoch: int, since: int, until: int, changes: Sequence[Change]) -> list["Batch"]:
    """Divide the changes of a range into batches."""
    return [
        Batch(epoch=epoch, since=since, until=until, changes=tuple(changes[n : n + _MAX_BATCH]))
        for n in range(0, len(changes), _MAX_BATCH)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Tells the client that changes are missing: it has to load the current state again."""

    cursor: Cursor
    reason: str


StreamItem: TypeAlias = Batch | Reset


class Subscription:
    """The items of one stream, in order."""

    def __init__(
        self,
        horizon: int,
        leave: Callable[["Subscription"], None],
        *,
        epoch: int,
        tenant_id: TenantId | None = None,
    ) -> None:
        self._tenant_id = tenant_id
        """The only tenant whose changes the stream gets; None: all changes."""
        self.horizon = horizon
        """All changes below the horizon have been put in."""
        self.epoch = epoch
        self.over = False
        """No item follows those that wait."""
        self._leave = leave
        self._items: deque[StreamItem] = deque()
        self._waiting = 0
        self._changed = asyncio.Event()

    @property
    def position(self) -> Cursor | None:
        """The cursor of a stream that has sent everything; None while items wait."""
        return None if self._items else Cursor.at(self.horizon, epoch=self.epoch)

    def begin_with(self, missed: Sequence[StreamItem]) -> None:
        """Put items from before the horizon in front of the items that wait already."""
        visible = [shown for item in missed if (shown := self._visible(item)) is not None]
        self._items.extendleft(reversed(visible))
        self._waiting += sum(_count_changes(item) for item in visible)
        self._changed.set()

    def put(self, item: StreamItem, *, horizon: int) -> None:
        """Append an item; above the limit, replace all waiting items by a reset and end."""
        if self.over:
            return
        self.horizon = horizon
        shown = self._visible(item)
        if shown is None:
            return
        item = shown
        self._waiting += _count_changes(item)
        if self._waiting > MAX_WAITING:
            self._items.clear()
            item = Reset(
                cursor=Cursor.at(horizon, epoch=self.epoch),
                reason=f"This stream was not read in time: more than {MAX_WAITING} changes waited.",
            )
            self.over = True
        self._items.append(item)
        self._changed.set()

    def _visible(self, item: StreamItem) -> StreamItem | None:
        """Return the part of an item that this stream may show."""
        if self._tenant_id is None or isinstance(item, Reset):
            return item
        return batch_of_tenant(item, self._tenant_id)

    def end(self) -> None:
        """Announce that no further item follows."""
        self.over = True
        self._changed.set()

    def close(self) -> None:
        """Drop all items, because the client is gone."""
        self.over = True
        self._items.clear()
        self._leave(self)

    async def take(self, *, within_s: float) -> StreamItem | None:
        """Return the next item; None after `within_s`, and at the end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not self._items and not self.over:
                    self._changed.clear()
                    await self._changed.wait()
        if not self._items:
            return None
        item = self._items.popleft()
        self._waiting -= _count_changes(item)
        return item


def _count_changes(item: StreamItem) -> int:
    return len(item.changes) if isinstance(item, Batch) else 0
