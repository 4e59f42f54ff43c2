"""Replays a record under the admission rules: claim by rank, grow, queue, hand over, refill.

The rules are those of the engine. A new bot never overtakes the queue. A claim takes a hot slot,
then one whose standby comes up, then a slot with a container, then a new slot. A free slot goes to
the first bot of the queue. The refill starts standbys at a limited rate, and never while a bot
waits.
"""

import heapq
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from botpool.domain.plan.record import PlannedPool, Record, RecordedBot, StartKind

REFILL_PER_S = 2.0
"""How many standbys a pool starts per second at most."""
_LEAD_S = 60.0
"""How much earlier than their start time a scheduled bot raises the floor."""
_YIELD_AFTER = 500


class _Event(IntEnum):
    """Events in the order in which they happen at one time."""

    TARGET = 0
    FREE = 1
    READY = 2
    REFILL = 3
    REMOVE = 4
    ARRIVE = 5
    EXPIRE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The targets of hot and idle slots from a time on."""

    at_s: float
    hot: int
    idle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a replay measured. A bot that expired in the queue waited until then, and was late."""

    waits_s: Sequence[float]
    """From the arrival to running, or to the end in the queue; sorted."""
    on_time: int
    """Bots that ran within the time that was asked for."""
    longest_queue: int
    idle_slot_h_per_day: float
    hot_slot_h_per_day: float

    @property
    def on_time_share(self) -> float:
        return self.on_time / len(self.waits_s) if self.waits_s else 1.0

    def percentile_s(self, share: float) -> float:
        """The wait that a share of the bots does not exceed."""
        return percentile(self.waits_s, share)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which a share of sorted values lies, interpolated; 0 without values."""
    if not ordered:
        return 0.0
    position = share * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


@dataclass(slots=True)
class _Waiting:
    """A bot that arrived, and its next assignment."""

    bot: RecordedBot
    number: int
    attempt: int = 0
    queued: bool = False


@dataclass(slots=True)
class _Replay:
    record: Record
    pool: PlannedPool
    floors: Sequence[Floor]
    ahead_of_schedule: bool
    within_s: float
    now_s: float = 0.0
    hot: int = 0
    coming_up: list[float] = field(default_factory=list)
    """When the standbys that come up are ready, sorted."""
    idle_since: list[float] = field(default_factory=list)
    """Since when the idle slots with a container are idle, longest first."""
    in_use: int = 0
    being_created: int = 0
    target_hot: int = 0
    target_idle: int = 0
    scheduled: int = 0
    next_refill_s: float = 0.0
    refill_due: bool = False
    longest_queue: int = 0
    queue_length: int = 0
    idle_s: float = 0.0
    hot_s: float = 0.0
    queue: list[tuple[int, int, _Waiting]] = field(default_factory=list)
    events: list[tuple[float, int, int, _Waiting | Floor | None]] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    expired_waits_s: list[float] = field(default_factory=list)
    sequence: int = 0
    start_s: dict[StartKind, float] = field(default_factory=dict)
    stay_s: float = 0.0

    def run(self, pause: Callable[[], None] | None) -> Outcome:
        self.start_s, self.stay_s = self.record.start_s(), self.record.typical_stay_s()
        self.idle_since = [0.0] * min(self.record.idle_slots, self.pool.max_size)
        for floor in self.floors:
            self._push(floor.at_s, _Event.TARGET, floor)
        for number, bot in enumerate(self.record.bots):
            self._push(bot.arrived_s, _Event.ARRIVE, _Waiting(bot, number))
            if self.ahead_of_schedule and bot.scheduled:
                lead_s = self.start_s[StartKind.WARM] + _LEAD_S
                self._push(bot.arrived_s - lead_s, _Event.TARGET, None)
        handled = 0
        while self.events:
            at_s, event, _, payload = heapq.heappop(self.events)
            if at_s > self.record.duration_s and event not in (_Event.FREE, _Event.READY):
                continue
            self._advance(at_s)
            self._handle(_Event(event), payload)
            handled += 1
            if pause is not None and handled % _YIELD_AFTER == 0:
                pause()
        self._advance(self.record.duration_s)
        return Outcome(
            waits_s=sorted([*self.waits_s, *self.expired_waits_s]),
            on_time=sum(wait <= self.within_s for wait in self.waits_s),
            longest_queue=self.longest_queue,
            idle_slot_h_per_day=self.idle_s / 3_600 / self.record.days,
            hot_slot_h_per_day=self.hot_s / 3_600 / self.record.days,
        )

    def _push(self, at_s: float, event: _Event, payload: _Waiting | Floor | None) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (at_s, event, self.sequence, payload))

    def _advance(self, at_s: float) -> None:
        """Count the slot hours until a time within the record."""
        until_s = min(at_s, self.record.duration_s)
        passed_s = max(until_s - max(self.now_s, 0.0), 0.0)
        self.hot_s += passed_s * (self.hot + len(self.coming_up))
        self.idle_s += passed_s * len(self.idle_since)
        self.now_s = max(self.now_s, at_s)

    def _handle(self, event: _Event, payload: _Waiting | Floor | None) -> None:
        match event, payload:
            case _Event.TARGET, Floor() as floor:
                self._set_target(floor)
            case _Event.TARGET, _:
                self.scheduled += 1
            case _Event.ARRIVE, _Waiting() as waiting:
                self._arrive(waiting)
            case _Event.FREE, _Waiting() as waiting:
                self._free(waiting)
            case _Event.FREE, _:
                self._finish_container()
            case _Event.READY, _:
                self._finish_standby()
            case _Event.EXPIRE, _Waiting() as waiting:
                self._expire(waiting)
            case _Event.REFILL, _:
                self.refill_due = False
            case _Event.REMOVE, _:
                self._remove_idle()
        self._refill()

    def _set_target(self, floor: Floor) -> None:
        self.target_hot, self.target_idle = floor.hot, floor.idle
        self._stop_surplus()

    def _finish_container(self) -> None:
        """An idle slot has its container."""
        self.being_created -= 1
        insort(self.idle_since, self.now_s)
        self._serve()

    def _finish_standby(self) -> None:
        """A standby is ready, unless a bot has claimed it before."""
        if self.coming_up and self.coming_up[0] <= self.now_s:
            self.coming_up.pop(0)
            self.hot += 1

    def _expire(self, waiting: _Waiting) -> None:
        if waiting.queued:
            waiting.queued = False
            self.queue_length -= 1
            self.expired_waits_s.append(waiting.bot.queue_timeout_s)

    @property
    def _size(self) -> int:
        return (
            self.in_use + self.hot + len(self.coming_up) + len(self.idle_since) + self.being_created
        )

    def _arrive(self, waiting: _Waiting) -> None:
        if self.ahead_of_schedule and waiting.bot.scheduled:
            self.scheduled -= 1
        if self.queue_length or not self._claim(waiting):
            self._enqueue(waiting)

    def _enqueue(self, waiting: _Waiting) -> None:
        waiting.queued = True
        self.queue_length += 1
        self.longest_queue = max(self.longest_queue, self.queue_length)
        heapq.heappush(self.queue, (waiting.bot.priority, waiting.number, waiting))
        if waiting.attempt == 0:
            self._push(self.now_s + waiting.bot.queue_timeout_s, _Event.EXPIRE, waiting)

    def _claim(self, waiting: _Waiting) -> bool:
        """Give the bot the slot with the lowest rank; False if there is none."""
        delay_s = 0.0
        if self.hot:
            self.hot -= 1
            kind = StartKind.HOT
        elif self.coming_up:
            delay_s = max(self.coming_up.pop(0) - self.now_s, 0.0)
            kind = StartKind.HOT
        elif self.idle_since:
            self.idle_since.pop(0)
            kind = StartKind.WARM
        elif self._size < self.pool.max_size:
            kind = StartKind.COLD
        else:
            return False
        self.in_use += 1
        self._occupy(waiting, kind, delay_s)
        return True

    def _occupy(self, waiting: _Waiting, kind: StartKind, delay_s: float) -> None:
        stays = waiting.bot.stays
        if waiting.attempt >= len(stays):
            # The bot expired in the recorded queue; now it gets a slot, for a typical time.
            start_s = delay_s + self.start_s[kind]
            self.waits_s.append(self.now_s - waiting.bot.arrived_s + start_s)
            self._push(self.now_s + start_s + self.stay_s, _Event.FREE, waiting)
            return
        stay = stays[waiting.attempt]
        if stay.start_s is None:
            self._push(self.now_s + stay.after_s, _Event.FREE, waiting)
            return
        start_s = delay_s + (stay.start_s if stay.kind is kind else self.start_s[kind])
        self.waits_s.append(self.now_s - waiting.bot.arrived_s + start_s)
        self._push(self.now_s + start_s + stay.after_s, _Event.FREE, waiting)

    def _free(self, waiting: _Waiting) -> None:
        """Free a slot: it goes to the queue, or it is idle with its container."""
        self.in_use -= 1
        self.idle_since.append(self.now_s)
        waiting.attempt += 1
        if waiting.attempt < len(waiting.bot.stays):
            self._enqueue(waiting)
        self._serve()
        if self.pool.warm.idle_ttl_s and self.now_s <= self.record.duration_s:
            self._push(self.now_s + self.pool.warm.idle_ttl_s, _Event.REMOVE, None)

    def _serve(self) -> None:
        """Give free slots to the first bots of the queue."""
        while self.queue_length:
            waiting = self.queue[0][2]
            if waiting.queued and not self._claim(waiting):
                return
            heapq.heappop(self.queue)
            if waiting.queued:
                waiting.queued = False
                self.queue_length -= 1

    def _stop_surplus(self) -> None:
        """Stop standbys above the target; their slots stay idle."""
        while self.hot and self.hot + len(self.coming_up) > self.target_hot + self.scheduled:
            self.hot -= 1
            self.idle_since.append(self.now_s)

    def _remove_idle(self) -> None:
        """Remove idle slots that no bot has used for `idle_ttl_s`."""
        oldest_s = self.now_s - self.pool.warm.idle_ttl_s
        floor = max(self.target_idle, self.target_hot)
        while (
            self.idle_since
            and self.idle_since[0] <= oldest_s
            and len(self.idle_since) + self.hot + len(self.coming_up) > floor
        ):
            self.idle_since.pop(0)

    def _refill(self) -> None:
        """Start standbys and create containers up to the targets, at a limited rate."""
        if self.queue_length or self.refill_due:
            return
        wanted = self.target_hot + self.scheduled - self.hot - len(self.coming_up)
        short = (
            self.target_idle
            - self.hot
            - len(self.coming_up)
            - len(self.idle_since)
            - self.being_created
        )
        if wanted <= 0 and short <= 0:
            return
        if self.now_s < self.next_refill_s:
            self._schedule_refill()
            return
        if wanted > 0 and self.idle_since:
            self.idle_since.pop()
            self._start_standby(self.start_s[StartKind.WARM])
        elif wanted > 0 and self._size < self.pool.max_size:
            self._start_standby(self.start_s[StartKind.COLD])
        elif short > 0 and self._size < self.pool.max_size:
            self.being_created += 1
            self._push(self.now_s + self.start_s[StartKind.COLD], _Event.FREE, None)
        else:
            return
        self.next_refill_s = self.now_s + 1 / REFILL_PER_S
        self._schedule_refill()

    def _start_standby(self, takes_s: float) -> None:
        insort(self.coming_up, self.now_s + takes_s)
        self._push(self.now_s + takes_s, _Event.READY, None)

    def _schedule_refill(self) -> None:
        self.refill_due = True
        self._push(self.next_refill_s, _Event.REFILL, None)


def replay(
    record: Record,
    pool: PlannedPool,
    floors: Sequence[Floor],
    *,
    within_s: float,
    ahead_of_schedule: bool = False,
    pause: Callable[[], None] | None = None,
) -> Outcome:
    """Replay a record in a pool with these floors. `pause` is called now and then."""
    return _Replay(record, pool, floors, ahead_of_schedule, within_s).run(pause)
