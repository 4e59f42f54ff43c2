"""The stream of changes: one reader for all streams of this replica.

While somebody listens, one statement five times a second asks for everything new, and every stream
gets the same batch; while nobody does, nothing is asked. A poll instead of a notification for each
change: a NOTIFY takes a lock that is global to the server, and would be on every path there is.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from botpool.domain.cursor import Cursor
from botpool.domain.errors import DatabaseUnavailable, ShuttingDown
from botpool.domain.records import Change
from botpool.engine.runtime.clock import loop_time
from botpool.engine.stream.subscriptions import (
    MOST_MISSED,
    MOST_WAITING,
    News,
    Reset,
    Subscription,
    batches,
)
from botpool.store.database import Database, Rows

_log = structlog.get_logger()
_INTERVAL_S = 0.2
_HELD_S = 5.0
"""How long changes may wait for somebody's open transaction before the streams say so."""


class ChangeStream:
    def __init__(
        self,
        database: Database,
        *,
        interval_s: float = _INTERVAL_S,
        monotonic: Callable[[], float] = loop_time,
    ) -> None:
        self._database = database
        self._interval_s = interval_s
        self._monotonic = monotonic
        self._horizon: int | None = None
        self._subscriptions: set[Subscription] = set()
        self._reading = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._closed = False
        self._held_told_at: float | None = None

    @property
    def streams(self) -> int:
        return len(self._subscriptions)

    async def subscribe(self, last_event_id: str | None) -> Subscription:
        """From now on; with the id of an event, from that one on."""
        async with self._reading:
            if self._closed:
                raise ShuttingDown
            # Also where the reader runs: a cursor that another replica gave may be ahead of it.
            horizon = await self._read()
            subscription = Subscription(horizon, self._leave)
            self._subscriptions.add(subscription)
            if self._reader is None:
                self._reader = asyncio.create_task(self._read_on(), name="changes")
        if last_event_id is not None:
            try:
                subscription.begin_with(await self._missed(last_event_id, horizon))
            except BaseException:
                subscription.close()
                raise
        return subscription

    async def close(self) -> None:
        """End all streams: their readers turn to another replica, or come again."""
        self._closed = True
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
        self._end_all()

    def _leave(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    def _end_all(self) -> None:
        for subscription in self._subscriptions:
            subscription.end()
        self._subscriptions.clear()
        self._horizon = None

    async def _read_on(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            async with self._reading:
                if self._subscriptions:
                    try:
                        await self._read()
                    except DatabaseUnavailable as error:
                        # Nobody may believe that nothing happens. They come again, and are told.
                        _log.warning("stream.database_unavailable", problem=error.detail)
                        self._end_all()
                    except Exception:
                        _log.exception("stream.failed")
                        self._end_all()
                if not self._subscriptions:
                    self._reader = self._horizon = None
                    return

    async def _read(self) -> int:
        """Read on from the horizon, tell it to all streams, and give the new horizon."""
        since = self._horizon
        rows = await self._rows(since, None)
        horizon = int(rows[0]["horizon"])
        self._horizon = horizon
        changes = _changes(rows)
        if since is not None:
            for news in _news(since, horizon, changes):
                self._tell(news, horizon)
        self._tell_held(rows[0]["held_s"], horizon)
        for subscription in self._subscriptions:
            subscription.horizon = horizon
        return horizon

    def _tell(self, news: News, horizon: int) -> None:
        for subscription in [*self._subscriptions]:
            subscription.put(news, horizon=horizon)
            if subscription.over:
                self._leave(subscription)

    def _tell_held(self, held_s: float | None, horizon: int) -> None:
        """Somebody's transaction stays open, and what others commit cannot be told in its order."""
        if held_s is None or held_s < _HELD_S:
            self._held_told_at = None
            return
        now = self._monotonic()
        if self._held_told_at is None or now - self._held_told_at >= _HELD_S:
            self._held_told_at = now
            _log.warning("stream.held", held_s=round(held_s, 1))
            reason = "A transaction in the database is open for long, and changes wait for it."
            self._tell(Reset(cursor=Cursor.at(horizon), reason=reason), horizon)

    async def _missed(self, last_event_id: str, horizon: int) -> Sequence[News]:
        """What happened between an event and the horizon."""
        cursor = Cursor.read_from(last_event_id)
        if cursor is None or cursor.until > horizon:
            return [_reset(horizon, "This Last-Event-ID is not one of this installation.")]
        oldest = await self._database.fetch_one("find_oldest_change", {})
        # The first id of all is 1: while it is there, nothing was ever forgotten.
        if oldest is not None and oldest["id"] > 1 and int(oldest["xid"]) > cursor.since:
            return [_reset(horizon, "What followed this Last-Event-ID may be forgotten by now.")]
        changes = _changes(await self._rows(cursor.since, horizon))
        if len(changes) > MOST_MISSED:
            return [_reset(horizon, f"More than {MOST_MISSED} changes followed since.")]
        unread = [
            each
            for each in changes
            if not cursor.has_read(transaction=each.transaction, change_id=each.id)
        ]
        rest = [each for each in unread if each.transaction < cursor.until]
        later = [each for each in unread if each.transaction >= cursor.until]
        return [
            *batches(cursor.since, cursor.until, rest),
            *batches(cursor.until, horizon, later),
        ]

    async def _rows(self, since: int | None, until: int | None) -> Rows:
        return await self._database.fetch(
            "read_changes",
            {
                "since": None if since is None else str(since),
                "until": None if until is None else str(until),
                "limit": MOST_WAITING + 1,
            },
        )


def _news(since: int, until: int, changes: Sequence[Change]) -> Sequence[News]:
    if len(changes) > MOST_WAITING:
        return [_reset(until, f"More than {MOST_WAITING} changes happened at once.")]
    return batches(since, until, changes)


def _reset(horizon: int, reason: str) -> Reset:
    return Reset(cursor=Cursor.at(horizon), reason=reason)


def _changes(rows: Rows) -> list[Change]:
    return [_change(row) for row in rows if row["id"] is not None]


def _change(row: dict[str, Any]) -> Change:
    return Change(
        id=row["id"],
        transaction=int(row["xid"]),
        at=row["at"],
        kind=row["kind"],
        pool_name=row["pool_name"],
        bot_id=row["bot_id"],
        slot_id=row["slot_id"],
        slot_name=row["slot_name"],
        from_state=row["from_state"],
        to_state=row["to_state"],
        reason=row["reason"],
        correlation_id=row["correlation_id"],
        data=row["data"],
    )
