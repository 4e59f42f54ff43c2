"""The stream of changes: one reader per replica for all of its streams.

While streams are open, the reader queries all new changes five times a second and gives each stream
the same batch. Without streams it does not query. The reader polls, because a NOTIFY per change
would take a global lock in every transaction.
"""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from botpool.domain.cursor import Cursor
from botpool.domain.errors import DatabaseUnavailable, ShuttingDown
from botpool.domain.history import Change
from botpool.domain.ids import TenantId
from botpool.engine.runtime.clock import loop_time
from botpool.engine.stream.subscriptions import (
    MAX_MISSED,
    MAX_WAITING,
    Reset,
    StreamItem,
    Subscription,
    batches,
)
from botpool.store.database import Database
from botpool.store.doctor import list_open_transactions
from botpool.store.history import ChangeRow, find_oldest_change, read_changes

_log = structlog.get_logger()
_INTERVAL_S = 0.2
_HELD_S = 5.0
"""How long an open transaction may delay changes before the streams get a reset."""
_RESTORED = "The database was restored or replaced since: changes may be lost."


class ChangeStream:
    """Reads changes and gives them to the subscriptions."""

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
        self._epoch = 0
        self._subscriptions: set[Subscription] = set()
        self._reading = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._closed = False
        self._held_reported_at: float | None = None

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return len(self._subscriptions)

    async def subscribe(
        self, last_event_id: str | None, *, tenant_id: TenantId | None = None
    ) -> Subscription:
        """Open a subscription from now on, or from the event with this id on.

        With a tenant, it gets only the changes of that tenant's bots.
        """
        async with self._reading:
            if self._closed:
                raise ShuttingDown
            # Read also while the reader runs: a cursor of another replica may be ahead of it.
            horizon = await self._read()
            subscription = Subscription(
                horizon, self._unsubscribe, epoch=self._epoch, tenant_id=tenant_id
            )
            self._subscriptions.add(subscription)
            if self._reader is None:
                self._reader = asyncio.create_task(self._read_on(), name="changes")
        if last_event_id is not None:
            try:
                subscription.begin_with(await self._read_missed(last_event_id, horizon))
            except BaseException:
                subscription.close()
                raise
        return subscription

    async def close(self) -> None:
        """End all streams; their clients reconnect to another replica."""
        self._closed = True
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
        self._end_all()

    def _unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    def _end_all(self) -> None:
        for subscription in self._subscriptions:
            subscription.end()
        self._subscriptions.clear()
        self._horizon = None

    async def _read_on(self) -> None:
        """Read until no stream is open."""
        while True:
            await asyncio.sleep(self._interval_s)
            async with self._reading:
                if self._subscriptions:
                    await self._read_or_end_all()
                if not self._subscriptions:
                    self._reader = self._horizon = None
                    return

    async def _read_or_end_all(self) -> None:
        """Read once. A failure ends all streams, because silence would mean "no changes"."""
        try:
            await self._read()
        except DatabaseUnavailable as error:
            _log.warning("stream.database_unavailable", problem=error.detail)
            self._end_all()
        except Exception:
            _log.exception("stream.failed")
            self._end_all()

    async def _read(self) -> int:
        """Give all streams the changes since the last read and return the new horizon."""
        since, former_epoch = self._horizon, self._epoch
        rows = await self._read_rows(since, None)
        horizon = rows[0].horizon
        self._horizon, self._epoch = horizon, rows[0].epoch
        for subscription in self._subscriptions:
            subscription.epoch = self._epoch
        if since is not None and self._epoch != former_epoch:
            self._distribute(self._reset_item(horizon, _RESTORED), horizon)
        elif since is not None:
            for item in self._stream_items(since, horizon, _changes_of(rows)):
                self._distribute(item, horizon)
        await self._report_held(rows[0].held_s, horizon)
        for subscription in self._subscriptions:
            subscription.horizon = horizon
        return horizon

    def _distribute(self, item: StreamItem, horizon: int) -> None:
        for subscription in [*self._subscriptions]:
            subscription.put(item, horizon=horizon)
            if subscription.over:
                self._unsubscribe(subscription)

    async def _report_held(self, held_s: float | None, horizon: int) -> None:
        """Send a reset while a long transaction keeps committed changes above the horizon."""
        if held_s is None or held_s < _HELD_S:
            self._held_reported_at = None
            return
        now = self._monotonic()
        if self._held_reported_at is None or now - self._held_reported_at >= _HELD_S:
            self._held_reported_at = now
            held_by = await list_open_transactions(self._database, longer_than_s=_HELD_S)
            _log.warning("stream.held", held_s=round(held_s, 1), held_by=[*map(str, held_by)])
            reason = "A long transaction in the database delays the changes of others."
            self._distribute(self._reset_item(horizon, reason), horizon)

    async def _read_missed(self, last_event_id: str, horizon: int) -> Sequence[StreamItem]:
        """Return the changes between an event and the horizon, or a reset."""
        cursor = Cursor.parse(last_event_id)
        if cursor is not None and cursor.epoch != self._epoch:
            return [self._reset_item(horizon, _RESTORED)]
        if cursor is None or cursor.until > horizon:
            return [
                self._reset_item(horizon, "This Last-Event-ID is not one of this installation.")
            ]
        oldest = await find_oldest_change(self._database)
        # The first id is 1: while that row exists, no row was ever pruned.
        if oldest is not None and oldest.id > 1 and oldest.transaction > cursor.since:
            return [
                self._reset_item(horizon, "Changes after this Last-Event-ID may have been pruned.")
            ]
        changes = _changes_of(await self._read_rows(cursor.since, horizon))
        if len(changes) > MAX_MISSED:
            return [self._reset_item(horizon, f"More than {MAX_MISSED} changes followed since.")]
        unread = [
            each
            for each in changes
            if not cursor.has_read(transaction=each.transaction, change_id=each.id)
        ]
        rest = [each for each in unread if each.transaction < cursor.until]
        later = [each for each in unread if each.transaction >= cursor.until]
        return [
            *batches(cursor.epoch, cursor.since, cursor.until, rest),
            *batches(cursor.epoch, cursor.until, horizon, later),
        ]

    async def _read_rows(self, since: int | None, until: int | None) -> Sequence[ChangeRow]:
        return await read_changes(self._database, since=since, until=until, limit=MAX_WAITING + 1)

    def _stream_items(
        self, since: int, until: int, changes: Sequence[Change]
    ) -> Sequence[StreamItem]:
        if len(changes) > MAX_WAITING:
            return [self._reset_item(until, f"More than {MAX_WAITING} changes happened at once.")]
        return batches(self._epoch, since, until, changes)

    def _reset_item(self, horizon: int, reason: str) -> Reset:
        return Reset(cursor=Cursor.at(horizon, epoch=self._epoch), reason=reason)


def _changes_of(rows: Sequence[ChangeRow]) -> list[Change]:
    return [row.change for row in rows if row.change is not None]
