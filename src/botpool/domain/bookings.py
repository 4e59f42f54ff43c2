"""Bookings of scheduled bots: free times, and the probability of being on time.

A booking is the period for which a scheduled bot needs a slot. The database decides which bookings
are reserved (`book_bot.sql`); these functions answer questions about them and do no I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate

from botpool.domain.ids import BotId
from botpool.domain.states import BotStatus

ON_TIME_S = 5.0
"""A bot is on time if it joins at most this long after its join time."""
MAX_DAYS_AHEAD = 366
"""How far ahead a bot may be scheduled."""
_RECORD_WEIGHT = 20.0
"""How many outcomes of scheduled bots weigh as much as the estimate from starts and samples."""
_CERTAIN = 0.999


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """An open booking of a pool."""

    bot_id: BotId
    reserved: bool
    starts_at: datetime
    """When the deployment starts."""
    join_at: datetime
    ends_at: datetime
    at_risk: str | None
    status: BotStatus
    on_time_probability: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BookingSlice:
    """The most bookings at one time in a part of a pool's next hours."""

    starts_at: datetime
    ends_at: datetime
    booked: int
    """Bookings with and without a reservation."""
    reserved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OnTimeRecord:
    """The outcomes of scheduled bots whose predicted probability lies in one tenth."""

    bucket: int
    reserved: bool
    bots: int
    on_time: int
    predicted: float
    """The mean of the predictions."""
    brier: float
    """The mean square of prediction minus outcome; 0 is perfect."""


def max_overlap(bookings: Sequence[Booking], start: datetime, end: datetime) -> int:
    """Return the highest number of bookings at one time in a period.

    Bookings that only meet do not overlap.
    """
    changes = sorted(
        change
        for booking in bookings
        if booking.starts_at < end and booking.ends_at > start
        for change in ((booking.starts_at, 1), (booking.ends_at, -1))
    )
    return max(accumulate(delta for _, delta in changes), default=0)


def slices(
    bookings: Sequence[Booking], start: datetime, *, length: timedelta, count: int
) -> list[BookingSlice]:
    """Return the bookings of `count` parts of equal length, from `start`."""
    reserved = [booking for booking in bookings if booking.reserved]
    periods = [(start + n * length, start + (n + 1) * length) for n in range(count)]
    return [
        BookingSlice(
            starts_at=begin,
            ends_at=end,
            booked=max_overlap(bookings, begin, end),
            reserved=max_overlap(reserved, begin, end),
        )
        for begin, end in periods
    ]


def nearest_free_join(
    bookings: Sequence[Booking],
    *,
    join_at: datetime,
    lead: timedelta,
    duration: timedelta,
    limit: int,
    earliest: datetime,
) -> datetime | None:
    """Return the join time nearest to `join_at` at which a reservation is possible.

    A booking lasts from `lead` before the join time to `duration` after it. Below the limit, a
    period can only become free at the end of a booking, or fit before the start of one.
    """
    if limit < 1:
        return None
    reserved = [booking for booking in bookings if booking.reserved]
    candidates = {join_at, earliest}
    candidates |= {booking.ends_at + lead for booking in reserved}
    candidates |= {booking.starts_at - duration for booking in reserved}
    free = [
        candidate
        for candidate in candidates
        if candidate >= earliest
        and max_overlap(reserved, candidate - lead, candidate + duration) < limit
    ]
    return min(free, key=lambda candidate: (abs(candidate - join_at), candidate), default=None)


def on_time_probability(
    *,
    reserved: bool,
    starts_in_time: float | None,
    free_share: float | None,
    record: Sequence[OnTimeRecord] = (),
) -> float:
    """Predict the probability that a scheduled bot is on time, from the record of its pool.

    `starts_in_time` is the share of recorded starts that were as quick as this one must be;
    `free_share` the share of recorded minutes with a free slot beside those of the bookings. The
    outcomes of earlier scheduled bots with (or without) a reservation correct the estimate.
    """
    estimate = 0.9 if starts_in_time is None else starts_in_time
    if not reserved:
        estimate *= 0.5 if free_share is None else free_share
    outcomes = [each for each in record if each.reserved is reserved]
    bots = sum(each.bots for each in outcomes)
    on_time = sum(each.on_time for each in outcomes)
    blended = (on_time + _RECORD_WEIGHT * estimate) / (bots + _RECORD_WEIGHT)
    return round(min(max(blended, 1 - _CERTAIN), _CERTAIN), 3)
