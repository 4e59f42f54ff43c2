"""What the API shows of a pool's schedule: its next hours, and the score of its predictions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from botpool.domain.bookings import Booking, BookingSlice, OnTimeRecord, slices
from botpool.domain.errors import NotFound
from botpool.domain.ids import PoolName
from botpool.store.bookings import PoolSchedule, get_pool_schedule, list_bookings, measure_on_time
from botpool.store.database import Database

SLICE = timedelta(minutes=10)
_MAX_BOOKINGS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSchedule:
    """A pool's next hours."""

    pool: PoolSchedule
    slices: Sequence[BookingSlice]
    bookings: Sequence[Booking]
    record: Sequence[OnTimeRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleQueries:
    """Reads the schedules of pools."""

    database: Database

    async def schedule(self, pool_name: PoolName, hours: int) -> ShownSchedule:
        """Return the bookings of a pool's next hours, in slices of ten minutes."""
        pool = await get_pool_schedule(self.database, pool_name=pool_name)
        if pool is None:
            raise NotFound("pool", pool_name)
        start = pool.now.replace(minute=pool.now.minute // 10 * 10, second=0, microsecond=0)
        bookings = await list_bookings(
            self.database,
            pool_name=pool_name,
            after=start,
            before=start + timedelta(hours=hours),
            limit=_MAX_BOOKINGS,
        )
        count = hours * int(timedelta(hours=1) / SLICE)
        return ShownSchedule(
            pool=pool,
            slices=slices(bookings, start, length=SLICE, count=count),
            bookings=bookings,
            record=await measure_on_time(self.database, pool_name=pool_name),
        )
